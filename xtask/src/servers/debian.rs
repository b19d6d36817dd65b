//! Redis, Postgres, PgBouncer, Chromium, Prometheus and valgrind from Debian's packages.

use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use super::programs::find_on_path;
use crate::cargo::{TaskError, step};

const ADVICE: &str = "install Redis 7 or newer, so that redis-server, redis-cli and redis-benchmark are on PATH \
                      (Debian and Ubuntu: apt-get install redis-server redis-tools)";

/// Installs Redis's server and tools.
pub(crate) fn install_redis() -> Result<(), TaskError> {
    let service_before = service_port_answers();
    install("Redis", &["redis-server", "redis-tools"], ADVICE)?;
    if !service_before && service_port_answers() {
        println!(
            "The package started a service on port 6379, which no test uses: systemctl disable --now redis-server"
        );
    }
    Ok(())
}

/// Installs Postgres's server and tools. If it can, the package creates a database, which no test uses.
pub(crate) fn install_postgres() -> Result<(), TaskError> {
    let advice = "install Postgres 14 or newer (Debian and Ubuntu: apt-get install postgresql)";
    install("Postgres", &["postgresql", "postgresql-client"], advice)
}

pub(crate) fn install_pgbouncer() -> Result<(), TaskError> {
    let advice = "install PgBouncer, so that pgbouncer is on PATH (Debian and Ubuntu: apt-get install pgbouncer)";
    install("PgBouncer", &["pgbouncer"], advice)
}

pub(crate) fn install_chromium() -> Result<(), TaskError> {
    let advice = "install Chromium, so that chromium and chromedriver are on PATH \
                  (Debian: apt-get install chromium chromium-driver)";
    install("Chromium", &["chromium", "chromium-driver"], advice)
}

/// Prometheus and its tool for rules. The package starts a service where it can, which no test uses.
pub(crate) fn install_prometheus() -> Result<(), TaskError> {
    let advice = "install Prometheus 2.40 or newer, so that prometheus and promtool are on PATH in one folder \
                  (Debian and Ubuntu: apt-get install prometheus)";
    install("Prometheus", &["prometheus"], advice)
}

/// Returns the path of valgrind, installing it if it is missing.
pub(crate) fn valgrind() -> Result<PathBuf, TaskError> {
    if find_on_path("valgrind").is_none() {
        let advice = "install valgrind, so that valgrind is on PATH (Debian and Ubuntu: apt-get install valgrind)";
        install("valgrind", &["valgrind"], advice)?;
    }
    find_on_path("valgrind").ok_or_else(|| TaskError("valgrind is installed, but not on PATH".to_owned()))
}

/// Installs Python's pip if it is missing.
pub(crate) fn install_pip(advice: &str) -> Result<(), TaskError> {
    let pip = Command::new("python3").args(["-m", "pip", "--version"]).output();
    match pip.is_ok_and(|output| output.status.success()) {
        true => Ok(()),
        false => install("pip", &["python3", "python3-pip"], advice),
    }
}

/// Installs packages, as root or with a sudo that needs no password.
pub(crate) fn install(what: &str, packages: &[&str], advice: &str) -> Result<(), TaskError> {
    if find_on_path("apt-get").is_none() {
        return Err(TaskError(format!("{what} is missing, and there is no apt-get to get it with: {advice}")));
    }
    let is_root = is_root()?;
    if !is_root && !can_sudo() {
        return Err(TaskError(format!("{what} is missing, and only root can get it: {advice}")));
    }
    let failed = |error: TaskError| TaskError(format!("{error}\n{advice}"));
    // Once is enough, because the next missing program is found within minutes.
    static UPDATED: AtomicBool = AtomicBool::new(false);
    if !UPDATED.swap(true, Ordering::Relaxed) {
        step(&format!("{what}: apt-get update"), apt_get(is_root).arg("update")).map_err(failed)?;
    }
    let install = ["install", "--yes", "--no-install-recommends"];
    step(&format!("{what}: apt-get install"), apt_get(is_root).args(install).args(packages)).map_err(failed)
}

fn apt_get(is_root: bool) -> Command {
    let mut command = Command::new(if is_root { "env" } else { "sudo" });
    if !is_root {
        command.args(["-n", "env"]);
    }
    // Another process may be installing packages: wait for it.
    command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-o", "DPkg::Lock::Timeout=120"]);
    command
}

fn is_root() -> Result<bool, TaskError> {
    let output = Command::new("id").arg("-u").output().map_err(|error| TaskError(format!("id: {error}")))?;
    Ok(output.stdout.trim_ascii() == b"0")
}

fn can_sudo() -> bool {
    Command::new("sudo").args(["-n", "true"]).output().is_ok_and(|output| output.status.success())
}

fn service_port_answers() -> bool {
    TcpStream::connect(("127.0.0.1", 6379)).is_ok()
}
