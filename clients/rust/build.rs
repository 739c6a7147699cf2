//! Makes the messages and stubs from proto/. protox compiles the .proto files, so no protoc is needed.

use std::{error::Error, path::Path};

const PROTOS: [&str; 4] = [
    "statekeep/v1/memory.proto",
    "statekeep/v1/scratch.proto",
    "statekeep/v1/state_store.proto",
    "statekeep/v1/value.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    println!("cargo:rerun-if-changed={}", root.join("statekeep/v1").display());
    let descriptors = protox::compile(PROTOS, [&root])?;
    tonic_prost_build::configure()
        .build_server(false)
        .build_transport(false)
        // A copy of such a value shares its bytes, and every try of a write needs one.
        .bytes(".statekeep.v1.Value.data")
        .compile_fds(descriptors)?;
    Ok(())
}
