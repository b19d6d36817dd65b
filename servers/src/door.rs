//! A door before a server, at which connections can be kept waiting.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A door before a server: while it is closed, connections are taken and hear nothing, as from a server that is far away or
/// busy.
pub struct Door {
    address: SocketAddr,
    room: Arc<Mutex<Room>>,
}

struct Room {
    server: SocketAddr,
    open: bool,
    waiting: Vec<TcpStream>,
    inside: Vec<TcpStream>,
}

impl Door {
    /// One that is open.
    pub fn before(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let room = Arc::new(Mutex::new(Room { server, open: true, waiting: Vec::new(), inside: Vec::new() }));
        let door = Door { address, room: Arc::clone(&room) };
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let mut room = room.lock().expect("nobody panics");
                room.waiting.push(client);
                if room.open {
                    room.let_in();
                }
            }
        });
        Ok(door)
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends every connection, and keeps all that come now waiting.
    pub fn close(&self) {
        let mut room = self.room.lock().expect("nobody panics");
        room.open = false;
        for stream in room.inside.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Has all that come from now on find another server behind it, as when a name leads elsewhere.
    pub fn lead_to(&self, server: SocketAddr) {
        self.room.lock().expect("nobody panics").server = server;
    }

    /// Lets in those who wait, and nobody who comes later.
    pub fn let_in(&self) {
        self.room.lock().expect("nobody panics").let_in();
    }
}

impl Room {
    fn let_in(&mut self) {
        for client in self.waiting.drain(..) {
            // Whom the server does not want, or who has gone away, notices.
            let Ok(server) = TcpStream::connect(self.server) else { continue };
            let (Ok(from_client), Ok(from_server)) = (client.try_clone(), server.try_clone()) else { continue };
            let (Ok(inside), Ok(behind)) = (client.try_clone(), server.try_clone()) else { continue };
            self.inside.extend([inside, behind]);
            thread::spawn(move || carry(from_client, server));
            thread::spawn(move || carry(from_server, client));
        }
    }
}

/// Carries all that comes, and then its end.
fn carry(mut from: TcpStream, mut to: TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}
