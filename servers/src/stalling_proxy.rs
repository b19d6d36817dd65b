//! A proxy in front of a server that can hold connections back.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A proxy in front of a server. While it holds connections, it accepts them and sends nothing, like a remote or busy
/// server.
pub struct StallingProxy {
    address: SocketAddr,
    state: Arc<Mutex<ProxyState>>,
}

struct ProxyState {
    server: SocketAddr,
    is_holding: bool,
    waiting: Vec<TcpStream>,
    forwarded: Vec<TcpStream>,
}

impl StallingProxy {
    /// Starts a proxy that forwards every connection.
    pub fn start(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let state = ProxyState { server, is_holding: false, waiting: Vec::new(), forwarded: Vec::new() };
        let state = Arc::new(Mutex::new(state));
        let proxy = StallingProxy { address, state: Arc::clone(&state) };
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let mut state = state.lock().expect("no panic");
                state.waiting.push(client);
                if !state.is_holding {
                    state.forward_waiting();
                }
            }
        });
        Ok(proxy)
    }

    /// The address that the proxy listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes every connection, and holds all later ones.
    pub fn hold_connections(&self) {
        let mut state = self.state.lock().expect("no panic");
        state.is_holding = true;
        for stream in state.forwarded.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Sends later connections to another server, as when a name resolves to a new address.
    pub fn set_server(&self, server: SocketAddr) {
        self.state.lock().expect("no panic").server = server;
    }

    /// Forwards the connections that wait now, and none that arrive later.
    pub fn forward_waiting(&self) {
        self.state.lock().expect("no panic").forward_waiting();
    }
}

impl ProxyState {
    fn forward_waiting(&mut self) {
        for client in self.waiting.drain(..) {
            // A dropped client notices that its connection is closed.
            let Ok(server) = TcpStream::connect(self.server) else { continue };
            let (Ok(from_client), Ok(from_server)) = (client.try_clone(), server.try_clone()) else { continue };
            let (Ok(client_side), Ok(server_side)) = (client.try_clone(), server.try_clone()) else { continue };
            self.forwarded.extend([client_side, server_side]);
            thread::spawn(move || copy_until_end(from_client, server));
            thread::spawn(move || copy_until_end(from_server, client));
        }
    }
}

/// Copies a stream, and then its end.
fn copy_until_end(mut from: TcpStream, mut to: TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}
