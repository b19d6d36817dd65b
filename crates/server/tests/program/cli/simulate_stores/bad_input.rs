//! Stores that `--store` refuses or cannot use.

use tidegate_servers::required_env;

use crate::cli::store::TestStore;
use crate::cli::{CliOutput, VALID_LINE, api_config, run_with_input};

/// A password that must not be seen again.
const SECRET: &str = "hunter2";

fn simulate_on_store(store: &str) -> CliOutput {
    simulate_on_store_with(store, &[])
}

fn simulate_on_store_with(store: &str, more: &[&str]) -> CliOutput {
    let config = api_config();
    let mut arguments = vec!["simulate", "--config", &config, "--trace", "-", "--store", store];
    arguments.extend(more);
    let ran = run_with_input(&arguments, VALID_LINE);
    assert_eq!(ran.stdout, "", "{store}");
    assert!(!ran.stderr.contains(SECRET) && !ran.stderr.contains("ter2"), "{}", ran.stderr);
    ran
}

#[test]
fn a_malformed_store_is_wrong_usage() {
    let accepted = "expected memory, sqlite:PATH, redis://[USER:PASSWORD@]HOST[:PORT][/DB] or \
                    postgres://USER[:PASSWORD]@HOST[:PORT]/DB";
    let usage = "\n\nUsage: tidegate simulate";
    for (store, expected) in [
        ("mysql://app:hunter2@db/app", format!("there is no store mysql://, {accepted}{usage}")),
        ("app:hunter2@db", format!("not a store, {accepted}{usage}")),
        ("hunter2", format!("not a store, {accepted}{usage}")),
        ("", format!("not a store, {accepted}{usage}")),
        ("Memory", format!("not a store, {accepted}{usage}")),
        ("redis:127.0.0.1", format!("not a store, {accepted}{usage}")),
        ("rediss://:hunter2@cache", "rediss:// is Redis over TLS, which is not built in: expected redis://".to_owned()),
        ("sqlite:", "sqlite: without a path, expected sqlite:PATH".to_owned()),
        ("sqlite::memory:", "sqlite::memory: would be gone with the process, expected memory".to_owned()),
        ("sqlite://limits.db", "sqlite:// is no URL here, expected the path alone".to_owned()),
        ("sqlite:file:limits.db?mode=ro", "sqlite:file: is no URI here, expected the path alone".to_owned()),
    ] {
        let ran = simulate_on_store(store);
        assert_eq!(ran.code, 2, "{store}: {}", ran.stderr);
        assert!(ran.stderr.starts_with(&format!("error: --store: {expected}")), "{store}: {}", ran.stderr);
        assert!(ran.stderr.contains("--help"), "{}", ran.stderr);
    }
}

/// The server is named, and the password is not.
#[test]
fn an_unreachable_store_is_reported_with_advice() {
    let folder = env!("CARGO_TARGET_TMPDIR");
    for (store, expected, advice) in [
        (
            "redis://app:hunter2@127.0.0.1:1/0",
            "redis://127.0.0.1:1 cannot be used: store unavailable: redis: ",
            "running",
        ),
        ("redis://app:hun/ter2@127.0.0.1", "redis://... cannot be used: ", "percent-encoded"),
        ("redis://:hunter2", "redis://... cannot be used: ", "percent-encoded"),
        (
            "postgres://app:hunter2@127.0.0.1:1/app",
            "postgres://127.0.0.1:1 cannot be used: store unavailable: postgres: error connecting to server: Connection \
             refused",
            "running",
        ),
        (
            "postgresql://127.0.0.1:1/app?password=hunter2&port=hunter2",
            "postgresql://127.0.0.1:1 cannot be used: ",
            "TLS",
        ),
        // The rest of an unencoded password is taken for the name of a setting.
        (
            "postgres://127.0.0.1:1/app?password=my&hunter2=x",
            "postgres://127.0.0.1:1 cannot be used: not supported by this store: postgres: the address is not understood\n",
            "percent-encoded",
        ),
        (&format!("sqlite:{folder}"), &format!("sqlite:{folder} cannot be used: that is a folder\n"), "sqlite:PATH"),
        ("sqlite:/nonexistent/limits.db", "sqlite:/nonexistent/limits.db cannot be used: ", "folder that exists"),
    ] {
        let ran = simulate_on_store(store);
        assert_eq!(ran.code, 1, "{store}: {}", ran.stderr);
        assert!(ran.stderr.starts_with(expected), "{store}: {}", ran.stderr);
        assert!(ran.stderr.lines().nth(1).is_some_and(|line| line.contains(advice)), "{store}: {}", ran.stderr);
    }
}

#[cfg(feature = "_real-servers")]
#[test]
fn a_refusing_server_is_quoted() {
    let (redis, postgres) = (required_env("TIDEGATE_REDIS_URL"), required_env("TIDEGATE_POSTGRES_URL"));
    let ran = simulate_on_store(&redis.replace("redis://", "redis://:hunter2@"));
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.starts_with(&format!("{redis} cannot be used: ")), "{}", ran.stderr);
    assert!(ran.stderr.contains("authentication failed"), "{}", ran.stderr);

    let ran = simulate_on_store(&postgres.replace("@", ":hunter2@").replace("/postgres", "/nobodys"));
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("database \"nobodys\" does not exist\n"), "{}", ran.stderr);

    let ran = simulate_on_store(&format!("{postgres}?sslmode=require"));
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("server does not support TLS\n"), "{}", ran.stderr);
}

/// A file of another program stays as it is.
#[test]
fn a_file_that_is_no_database_is_left_alone() {
    let path =
        crate::cli::write_file("not-a-database.db", "certainly not a database, and somebody needs it".repeat(100));
    let before = std::fs::read(&path).unwrap();
    let ran = simulate_on_store(&format!("sqlite:{path}"));
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("file is not a database"), "{}", ran.stderr);
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

/// A bad config or a missing trace is reported before the store is opened.
#[test]
fn wrong_input_opens_no_store() {
    let store = TestStore::sqlite();
    let path = store.url.strip_prefix("sqlite:").unwrap();
    for (config, trace) in [("/nonexistent/limits.toml", "-"), (api_config().as_str(), "/nonexistent/trace.jsonl")] {
        let ran = crate::cli::run(&["simulate", "--config", config, "--trace", trace, "--store", &store.url]);
        assert_eq!(ran.code, 1);
        assert!(ran.stderr.contains("cannot be read"), "{}", ran.stderr);
        assert!(!std::path::Path::new(path).exists());
    }
}

#[test]
fn capacity_is_a_setting_of_memory_only() {
    for room in ["--max-keys", "--max-bytes"] {
        let ran = simulate_on_store_with("redis://:hunter2@127.0.0.1:1", &[room, "5000000"]);
        assert_eq!(ran.code, 2);
        let expected = format!(
            "error: {room} is for --store memory: another store has room of its own\n\nUsage: tidegate simulate"
        );
        assert!(ran.stderr.starts_with(&expected), "{}", ran.stderr);
        let arguments =
            ["simulate", "--config", &api_config(), "--trace", "/dev/null", room, "5000000", "--store", "memory"];
        let memory = crate::cli::run(&arguments);
        assert_eq!(memory.code, 0, "{}", memory.stderr);
    }
}
