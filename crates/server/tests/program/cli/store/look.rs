//! How many keys a store holds, without the program's help.

use std::path::Path;

use redis::Commands;
use rusqlite::OpenFlags;
use tokio_postgres::NoTls;

/// Returns all rows of a file of this test alone: long names are stored as hashes, without a prefix.
pub(super) fn sqlite(path: &str) -> usize {
    if !Path::new(path).exists() {
        return 0;
    }
    let file = rusqlite::Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let count = |what: &str| file.query_row(what, [], |row| row.get::<_, i64>(0)).unwrap() as usize;
    match count("SELECT count(*) FROM sqlite_schema WHERE name = 'tidegate'") {
        0 => 0,
        _ => count("SELECT count(*) FROM tidegate"),
    }
}

pub(super) fn redis(url: &str, prefix: &str) -> usize {
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    let keys = connection.scan_match::<_, String>(format!("{prefix}*")).unwrap();
    keys.map(Result::unwrap).collect::<std::collections::HashSet<_>>().len()
}

pub(super) fn postgres(url: &str, prefix: &str) -> usize {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(connection);
        let there = client.query_one("SELECT to_regclass('tidegate') IS NOT NULL", &[]).await.unwrap();
        if !there.get::<_, bool>(0) {
            return 0;
        }
        let count = "SELECT count(*) FROM tidegate WHERE position($1::bytea in key) = 1";
        client.query_one(count, &[&prefix.as_bytes()]).await.unwrap().get::<_, i64>(0) as usize
    })
}
