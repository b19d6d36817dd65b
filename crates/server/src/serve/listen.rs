//! Which ports to open, and whether they may be.

use std::net::SocketAddr;

use tokio::net::TcpListener;
use tokio::runtime::Handle;

use super::auth::Token;
use super::port::Port;
use super::tls::Tls;
use crate::cli::{Listen, Serve};
use crate::failure::Failure;

/// The ports that are listened on; none for those that are off.
pub(crate) struct Ports {
    pub(crate) http: Option<Port>,
    pub(crate) grpc: Option<Port>,
    pub(crate) resp: Option<Port>,
}

impl Ports {
    /// Opens the ports, after it is sure that each of them may be; that of gRPC for those threads.
    pub(crate) async fn open(serve: &Serve, token: Option<&Token>, for_grpc: &Handle) -> Result<Self, Failure> {
        let by_token = token.is_some();
        may_be_opened("http", serve.http, serve.insecure || by_token, "a token")?;
        let by_certificate = serve.tls_client_ca.is_some();
        may_be_opened("grpc", serve.grpc, serve.insecure || by_token || by_certificate, "a token or --tls-client-ca")?;
        may_be_opened("resp", serve.resp, serve.insecure || by_token, "a token")?;
        if [serve.http, serve.grpc, serve.resp].iter().all(|listen| *listen == Listen::Off) {
            return Err(Failure::Start(
                "every port is off: expected at least one of --http, --grpc, --resp".to_owned(),
            ));
        }
        let tls = Tls::of(serve)?;
        let here = Handle::current();
        let open = async |name, listen, tls, threads| match listen {
            Listen::Off => Ok(None),
            Listen::At(address) => {
                let listener = bind(name, address, threads).await?;
                Ok::<_, Failure>(Some(Port { name, listener, tls, max_connections: serve.max_connections }))
            }
        };
        Ok(Ports {
            http: open("http", serve.http, tls.http, &here).await?,
            grpc: open("grpc", serve.grpc, tls.grpc, for_grpc).await?,
            resp: open("resp", serve.resp, tls.resp, &here).await?,
        })
    }
}

/// Refuses to listen beyond this machine where nobody would have to show who they are.
fn may_be_opened(name: &str, listen: Listen, guarded: bool, guards: &str) -> Result<(), Failure> {
    match listen {
        Listen::At(address) if !address.ip().is_loopback() && !guarded => Err(Failure::Start(format!(
            "--{name} {address} is open to others, and nobody would have to show who they are: set {guards} \
             (see `tidegate serve --help`), listen on 127.0.0.1, or say --insecure"
        ))),
        _ => Ok(()),
    }
}

async fn bind(name: &str, address: SocketAddr, threads: &Handle) -> Result<TcpListener, Failure> {
    let bound = TcpListener::bind(address).await.and_then(TcpListener::into_std);
    // Whose threads are told of a connection depends on where this is done.
    let _entered = threads.enter();
    bound.and_then(TcpListener::from_std).map_err(|error| {
        Failure::Start(format!(
            "--{name} {address} cannot be listened on: {error}. Choose another with --{name} ADDR, or off"
        ))
    })
}
