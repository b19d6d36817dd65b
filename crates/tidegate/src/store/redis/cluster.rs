//! A connection to a cluster, which finds the node of a key and follows slots that move.
//!
//! Every node has a connection of its own, so a node that hangs delays only calls about its own slots. A call is sent to
//! the owner of its slot. When the owner redirects it, it is sent again. That is safe: a node that redirects a call has not
//! run it. No other failure is repeated here.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use redis::aio::{ConnectionLike, ConnectionManager};
use redis::{
    Client, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo, RedisError, RedisResult, RetryMethod,
    ServerErrorKind, Value,
};
use tidegate_core::millis;
use tokio::runtime::Handle;

use super::builder::{manager_config, tcp_settings};
use super::failover::begin_interval;
use super::slot::{SLOTS, Slot};

/// The pauses before a call is sent once more in a slot that moves. They end long before usual timeouts: a call that timed
/// out would look like a broken node.
pub(super) const RETRY_PAUSES: [Duration; 5] = [Duration::ZERO, Duration::ZERO, millis(1), millis(2), millis(4)];

/// How many nodes are asked for the slots at a time. The first answer is taken, so a node that hangs does not delay it.
const NODES_ASKED: usize = 3;

/// How long a node may take to connect and answer for the slots.
const SLOTS_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection to a cluster. Clones share it.
///
/// It is made by [`RedisStoreBuilder::connect_cluster`](super::RedisStoreBuilder::connect_cluster), or by itself, for
/// several stores.
#[derive(Clone)]
pub struct ClusterConnection(Arc<Cluster>);

struct Cluster {
    /// The settings of every connection, and an address that is replaced.
    template: ConnectionInfo,
    /// The nodes that were named. They are asked when no known node answers.
    seeds: Vec<NodeAddress>,
    /// The runtime in which the cluster was connected, and in which the slots are refreshed.
    runtime: Handle,
    topology: RwLock<Topology>,
    /// When the last refresh of the slots began, in microseconds.
    last_refresh: AtomicU64,
    refreshes: AtomicUsize,
}

/// The known nodes, and the owner of each slot.
struct Topology {
    nodes: HashMap<NodeAddress, Arc<Node>>,
    /// By slot; none where no node is known to serve it.
    owners: Vec<Option<Arc<Node>>>,
}

struct Node {
    address: NodeAddress,
    connection: ConnectionManager,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct NodeAddress {
    host: String,
    port: u16,
}

/// The slots from the first to the last, and their owner.
#[derive(Debug, PartialEq, Eq)]
struct SlotRange {
    first: usize,
    last: usize,
    owner: NodeAddress,
}

/// The node that a redirected call has to be sent to.
#[derive(Debug, PartialEq, Eq)]
enum Redirect {
    /// For good: it owns the slot now.
    Moved(NodeAddress),
    /// This call only: the slot moves to it, and the key is not at its owner.
    Ask(NodeAddress),
}

impl ClusterConnection {
    /// Connects to a cluster, some of whose nodes are named. One of them has to be there now. Credentials and TLS settings
    /// of the first one are used for every node.
    pub async fn connect<T: IntoConnectionInfo>(nodes: impl IntoIterator<Item = T>) -> RedisResult<Self> {
        let nodes: Vec<ConnectionInfo> =
            nodes.into_iter().map(IntoConnectionInfo::into_connection_info).collect::<Result<_, _>>()?;
        let no_node = || RedisError::from((ErrorKind::InvalidClientConfig, "no node of the cluster is named"));
        let template = nodes.first().ok_or_else(no_node)?.clone().set_tcp_settings(tcp_settings());
        let seeds = nodes.iter().map(|node| NodeAddress::from_info(node.addr())).collect::<Result<_, _>>()?;
        let no_runtime = |_| RedisError::from((ErrorKind::InvalidClientConfig, "a cluster needs a runtime of tokio"));
        let cluster = Cluster {
            template,
            seeds,
            runtime: Handle::try_current().map_err(no_runtime)?,
            topology: RwLock::new(Topology { nodes: HashMap::new(), owners: vec![None; SLOTS] }),
            last_refresh: AtomicU64::new(0),
            refreshes: AtomicUsize::new(0),
        };
        cluster.refresh().await?;
        Ok(ClusterConnection(Arc::new(cluster)))
    }

    /// Sends a command about keys of one slot, of which `key` is one, to the node that serves it.
    pub(super) async fn send_to_slot(&self, key: &str, command: &Cmd) -> RedisResult<Value> {
        let cluster = &self.0;
        let slot = Slot::of_name(key);
        let mut guard = UnansweredGuard { cluster, is_answered: false };
        let mut node = cluster.owner(slot)?;
        let mut is_asking = false;
        let mut pauses = RETRY_PAUSES.into_iter();
        let result = loop {
            let result = if is_asking { node.ask(command).await } else { node.send(command).await };
            let Some(redirect) = result.as_ref().err().and_then(|error| node.redirect(error)) else { break result };
            let Some(pause) = pauses.next() else { break result };
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            match redirect {
                Redirect::Ask(address) => (node, is_asking) = (cluster.node(address)?, true),
                Redirect::Moved(address) => {
                    (node, is_asking) = (cluster.node(address)?, false);
                    cluster.set_owner(slot, &node);
                    cluster.start_refresh();
                }
            }
        };
        guard.is_answered = true;
        if let Err(error) = &result {
            cluster.note_failure(&node, error);
        }
        result
    }
}

impl fmt::Debug for ClusterConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No addresses: the named ones may carry a password.
        f.debug_struct("ClusterConnection").field("nodes", &self.0.read().nodes.len()).finish_non_exhaustive()
    }
}

impl Cluster {
    /// The owner of a slot. For a slot without a known owner it is any node, which redirects the call or refuses it.
    fn owner(&self, slot: Slot) -> RedisResult<Arc<Node>> {
        let topology = self.read();
        let owner = topology.owners[slot.index()].as_ref().or_else(|| topology.nodes.values().next());
        owner.cloned().ok_or_else(no_answer)
    }

    /// The node at an address, with a new connection if the address is not known yet.
    fn node(&self, address: NodeAddress) -> RedisResult<Arc<Node>> {
        if let Some(node) = self.read().nodes.get(&address) {
            return Ok(Arc::clone(node));
        }
        let mut topology = self.write();
        if let Some(node) = topology.nodes.get(&address) {
            return Ok(Arc::clone(node));
        }
        let node = Arc::new(self.connect_node(address.clone())?);
        topology.nodes.insert(address, Arc::clone(&node));
        Ok(node)
    }

    /// Makes the connection to a node, which is established in the background: a call with a short timeout would not do it.
    fn connect_node(&self, address: NodeAddress) -> RedisResult<Node> {
        let _entered = self.runtime.enter();
        let client = Client::open(self.template.clone().set_addr(address.to_addr(self.template.addr())))?;
        let connection = ConnectionManager::new_lazy_with_config(client, manager_config())?;
        let mut first_user = connection.clone();
        self.runtime.spawn(async move { redis::cmd("PING").exec_async(&mut first_user).await });
        Ok(Node { address, connection })
    }

    fn set_owner(&self, slot: Slot, node: &Arc<Node>) {
        self.write().owners[slot.index()] = Some(Arc::clone(node));
    }

    /// Notes a call that a node has failed: its slots may be elsewhere by now.
    fn note_failure(self: &Arc<Self>, node: &Node, error: &RedisError) {
        self.forget_if_refused(node, error);
        if !matches!(error.retry_method(), RetryMethod::NoRetry) {
            self.start_refresh();
        }
    }

    /// Forgets a node that has refused the login: this connection would stay refused, and a refresh makes another one.
    fn forget_if_refused(&self, node: &Node, error: &RedisError) {
        if error.kind() == ErrorKind::AuthenticationFailed {
            self.write().nodes.remove(&node.address);
        }
    }

    /// Refreshes the slots in the background, once a second at most: when many calls fail, one refresh is enough.
    fn start_refresh(self: &Arc<Self>) {
        if begin_interval(&self.last_refresh) {
            let cluster = Arc::clone(self);
            // When it fails, so do calls, and the next of those begins another one.
            self.runtime.spawn(async move { cluster.refresh().await });
        }
    }

    /// Takes the slots from the first node that answers.
    async fn refresh(&self) -> RedisResult<()> {
        let answers = stream::iter(self.candidates()).map(|address| self.load_slots(address));
        let mut answers = answers.buffer_unordered(NODES_ASKED);
        let mut result = Err(no_answer());
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(ranges) => return self.set_slots(ranges),
                Err(error) => result = Err(error),
            }
        }
        result
    }

    /// The nodes to ask for the slots: the known and the named ones, starting with another one each time.
    fn candidates(&self) -> Vec<NodeAddress> {
        let mut nodes: Vec<NodeAddress> = self.read().nodes.keys().chain(&self.seeds).cloned().collect();
        let start = self.refreshes.fetch_add(1, Ordering::Relaxed) % nodes.len();
        nodes.rotate_left(start);
        nodes
    }

    async fn load_slots(&self, address: NodeAddress) -> RedisResult<Vec<SlotRange>> {
        let node = self.node(address)?;
        let mut command = redis::cmd("CLUSTER");
        let answer = tokio::time::timeout(SLOTS_TIMEOUT, node.send(command.arg("SLOTS"))).await;
        let reply = answer.map_err(|_| no_answer())?.inspect_err(|error| self.forget_if_refused(&node, error))?;
        let ranges = parse_slots(reply, &node.address.host);
        // A node that has left the cluster knows of none.
        if ranges.is_empty() { Err(no_answer()) } else { Ok(ranges) }
    }

    /// Replaces the slots, and forgets the nodes that own none.
    fn set_slots(&self, ranges: Vec<SlotRange>) -> RedisResult<()> {
        let mut topology = self.write();
        let mut nodes: HashMap<NodeAddress, Arc<Node>> = HashMap::new();
        let mut owners = vec![None; SLOTS];
        for SlotRange { first, last, owner } in ranges {
            let node = match nodes.get(&owner).or_else(|| topology.nodes.get(&owner)) {
                Some(node) => Arc::clone(node),
                None => Arc::new(self.connect_node(owner.clone())?),
            };
            owners[first..=last].fill(Some(Arc::clone(&node)));
            nodes.insert(owner, node);
        }
        *topology = Topology { nodes, owners };
        Ok(())
    }

    fn read(&self) -> RwLockReadGuard<'_, Topology> {
        self.topology.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Topology> {
        self.topology.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Node {
    async fn send(&self, command: &Cmd) -> RedisResult<Value> {
        command.query_async(&mut self.connection.clone()).await
    }

    /// Sends a command for a slot that moves to this node. Both are written as one: the node serves only the next command,
    /// and the connection is shared.
    async fn ask(&self, command: &Cmd) -> RedisResult<Value> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("ASKING").add_command(command.clone());
        let replies = self.connection.clone().req_packed_commands(&pipeline, 1, 1).await?;
        replies.into_iter().next().ok_or_else(no_answer)?.extract_error()
    }

    /// The redirect that an error of this node is, if it is one. Without a host it is to another port of the same host.
    fn redirect(&self, error: &RedisError) -> Option<Redirect> {
        let address = NodeAddress::parse(error.redirect_node()?.0, &self.address.host)?;
        match error.kind() {
            ErrorKind::Server(ServerErrorKind::Moved) => Some(Redirect::Moved(address)),
            _ => Some(Redirect::Ask(address)),
        }
    }
}

impl NodeAddress {
    fn parse(text: &str, default_host: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let host = if host.is_empty() { default_host } else { host };
        Some(NodeAddress { host: host.to_owned(), port: port.parse().ok()? })
    }

    fn from_info(address: &ConnectionAddr) -> RedisResult<Self> {
        match address {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                Ok(NodeAddress { host: host.clone(), port: *port })
            }
            _ => Err((ErrorKind::InvalidClientConfig, "the nodes of a cluster have a host and a port").into()),
        }
    }

    /// The address of a connection that is encrypted as `like` is.
    fn to_addr(&self, like: &ConnectionAddr) -> ConnectionAddr {
        let NodeAddress { host, port } = self.clone();
        match like {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                ConnectionAddr::TcpTls { host, port, insecure: *insecure, tls_params: tls_params.clone() }
            }
            _ => ConnectionAddr::Tcp(host, port),
        }
    }
}

/// Refreshes the slots when a call is dropped before it is answered: its node may hang, and another one have its slots.
struct UnansweredGuard<'a> {
    cluster: &'a Arc<Cluster>,
    is_answered: bool,
}

impl Drop for UnansweredGuard<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.cluster.start_refresh();
        }
    }
}

/// Parses the reply to `CLUSTER SLOTS` of a node at `host`: for each range its first and last slot, the owner and the
/// replicas. Ranges that make no sense are left out.
fn parse_slots(reply: Value, host: &str) -> Vec<SlotRange> {
    let Value::Array(ranges) = reply else { return Vec::new() };
    ranges.iter().filter_map(|range| parse_range(range, host)).collect()
}

fn parse_range(range: &Value, host: &str) -> Option<SlotRange> {
    let Value::Array(parts) = range else { return None };
    let [Value::Int(first), Value::Int(last), Value::Array(owner), ..] = &**parts else { return None };
    let [owner, Value::Int(port), ..] = &**owner else { return None };
    let owner = match owner {
        Value::BulkString(bytes) => str::from_utf8(bytes).ok()?,
        Value::Nil => "",
        _ => return None,
    };
    let owner = match owner {
        // A node that does not know its own address.
        "" | "0.0.0.0" | "::" => host,
        // A node whose name is not known.
        "?" => return None,
        owner => owner,
    };
    let (first, last) = (usize::try_from(*first).ok()?, usize::try_from(*last).ok()?);
    let owner = NodeAddress { host: owner.to_owned(), port: u16::try_from(*port).ok()? };
    (first <= last && last < SLOTS).then_some(SlotRange { first, last, owner })
}

fn no_answer() -> RedisError {
    (ErrorKind::Io, "no node of the cluster answers for the slot").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: i64, last: i64, host: Value, port: i64) -> Value {
        let owner = Value::Array(vec![host, Value::Int(port), Value::BulkString(b"id".to_vec())]);
        let replica = Value::Array(vec![Value::BulkString(b"10.0.0.9".to_vec()), Value::Int(1)]);
        Value::Array(vec![Value::Int(first), Value::Int(last), owner, replica])
    }

    fn host(name: &str) -> Value {
        Value::BulkString(name.as_bytes().to_vec())
    }

    fn address(host: &str, port: u16) -> NodeAddress {
        NodeAddress { host: host.to_owned(), port }
    }

    #[test]
    fn slots_of_unknown_hosts_and_damaged_ranges_are_left_out() {
        let reply = Value::Array(vec![
            range(0, 5, host("10.0.0.1"), 7_000),
            range(6, 6, Value::Nil, 7_001),
            range(7, 7, host("0.0.0.0"), 7_002),
            range(8, 8, host("?"), 7_003),
            range(9, 16_384, host("a"), 1),
            range(-1, 3, host("a"), 1),
            range(5, 4, host("a"), 1),
            range(1, 1, host("a"), 65_536),
            Value::Array(vec![Value::Int(1), Value::Int(2)]),
            Value::Nil,
        ]);
        let owned = |first, last, host, port| SlotRange { first, last, owner: address(host, port) };
        let expected = [owned(0, 5, "10.0.0.1", 7_000), owned(6, 6, "seed", 7_001), owned(7, 7, "seed", 7_002)];
        assert_eq!(parse_slots(reply, "seed"), expected);
        assert_eq!(parse_slots(Value::Nil, "seed"), []);
    }

    #[test]
    fn addresses_of_redirects_may_have_no_host_or_one_of_version_6() {
        assert_eq!(NodeAddress::parse("10.0.0.1:7000", "seed"), Some(address("10.0.0.1", 7_000)));
        assert_eq!(NodeAddress::parse(":7000", "seed"), Some(address("seed", 7_000)));
        assert_eq!(NodeAddress::parse("::1:7000", "seed"), Some(address("::1", 7_000)));
        assert_eq!(NodeAddress::parse("[::1]:7000", "seed"), Some(address("::1", 7_000)));
        for damaged in ["", "host", "host:", "host:x", "host:70000"] {
            assert_eq!(NodeAddress::parse(damaged, "seed"), None, "{damaged}");
        }
    }
}
