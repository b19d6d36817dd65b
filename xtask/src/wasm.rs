//! Builds for wasm32: the core, and Workers for workerd.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{TaskError, cargo, output_of, step};
use crate::servers::{crates, debian};

const TARGET: &str = "wasm32-unknown-unknown";
/// A folder of its own, because artifacts of another compiler would replace the usual ones each time.
const FOLDER: &str = "target/wasm";

/// Checks the core for wasm32: it builds there without a clock, and its source starts no thread and reads no clock on
/// any target.
pub(crate) fn check_core() -> Result<(), TaskError> {
    let arguments = ["check", "--package", "tidegate-core", "--package", "tidegate", "--features", "api,config,stored"];
    step("core and library for wasm32", Compiler::find()?.cargo(&arguments).env("RUSTFLAGS", "-D warnings"))?;
    let banned =
        ["std::thread", "thread::spawn", "Instant", "SystemTime", "TcpStream", "UdpSocket", "std::fs", "std::env"];
    let mut folders = vec![PathBuf::from("crates/core/src")];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(|error| TaskError(format!("{}: {error}", folder.display())))?;
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).map_err(|error| TaskError(format!("{}: {error}", path.display())))?;
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            if let Some(line) = code.into_iter().find(|line| banned.iter().any(|banned| line.contains(banned))) {
                return Err(TaskError(format!("{}: the core has no clock, thread or I/O: {line}", path.display())));
            }
        }
    }
    Ok(())
}

/// Builds the ready Worker and the example, each in a folder for workerd.
pub(crate) fn build_workers() -> Result<[PathBuf; 2], TaskError> {
    let arguments = ["build", "--release", "--package", "tidegate-edge", "--package", "tidegate-example-worker"];
    step("Workers for wasm32", &mut Compiler::find()?.cargo(&arguments))?;
    Ok([bind_worker("tidegate_edge")?, bind_worker("tidegate_example_worker")?])
}

/// Adds the JavaScript to a Worker, and returns its folder.
fn bind_worker(name: &str) -> Result<PathBuf, TaskError> {
    let folder = Path::new(FOLDER).join(name);
    let module = Path::new(FOLDER).join(TARGET).join("release").join(format!("{name}.wasm"));
    let mut bind = Command::new(wasm_bindgen()?);
    bind.args(["--target", "web", "--no-typescript", "--out-name", "worker", "--out-dir"]).arg(&folder).arg(module);
    step(&format!("{name}: wasm-bindgen"), &mut bind)?;
    folder.canonicalize().map_err(|error| TaskError(format!("{}: {error}", folder.display())))
}

/// Installs the program that generates the JavaScript, in the version of the Workers. It is built once, and cached.
fn wasm_bindgen() -> Result<PathBuf, TaskError> {
    let lock = fs::read_to_string("Cargo.lock").map_err(|error| TaskError(format!("Cargo.lock: {error}")))?;
    let version = lock.lines().skip_while(|line| *line != "name = \"wasm-bindgen\"").nth(1);
    let version = version.and_then(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    let version = version.ok_or_else(|| TaskError("Cargo.lock names no wasm-bindgen".to_owned()))?;
    Ok(crates::install("wasm-bindgen-cli", version, "dev")?.join("wasm-bindgen"))
}

/// A compiler for wasm32.
enum Compiler {
    /// The usual compiler, with the target's standard library.
    Default,
    /// Debian's compiler, which builds the standard library from its source, and our linker.
    Debian { linker: PathBuf },
}

impl Compiler {
    fn find() -> Result<Self, TaskError> {
        let sysroot = output_of(Command::new("rustc").args(["--print", "sysroot"]))?;
        let libraries = Path::new(sysroot.trim()).join("lib/rustlib");
        if libraries.join(TARGET).exists() {
            return Ok(Compiler::Default);
        }
        if output_of(Command::new("rustup").args(["target", "add", TARGET])).is_ok() {
            return Ok(Compiler::Default);
        }
        let packages = ["rustc-web", "cargo-web", "rust-web-src"];
        // Only root can install packages. Every user can build with installed ones.
        if output_of(Command::new("dpkg").arg("--status").args(packages)).is_err() {
            let advice = "install the target with `rustup target add wasm32-unknown-unknown`";
            debian::install("Rust for wasm32", &packages, advice)?;
        }
        let host = output_of(Command::new("rustc").args(["--print", "host-tuple"]))?;
        Ok(Compiler::Debian { linker: libraries.join(host.trim()).join("bin/rust-lld") })
    }

    fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = match self {
            Compiler::Default => cargo([]),
            Compiler::Debian { linker } => {
                let mut command = Command::new("/usr/bin/cargo");
                command.env("RUSTC", "/usr/bin/rustc").env("RUSTC_BOOTSTRAP", "1").env_remove("RUSTUP_TOOLCHAIN");
                command.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker);
                command
            }
        };
        command.args(arguments).args(["--target", TARGET, "--target-dir", FOLDER]);
        if let Compiler::Debian { .. } = self {
            command.args(["-Z", "build-std=std,panic_abort"]);
        }
        command
    }
}
