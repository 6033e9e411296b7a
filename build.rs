//! What the linker is told about the shared library. The server must see two symbols of it, RedisModule_OnLoad and _OnUnload.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // The linker makes up symbols for the sections of a dependency's registries (`linkme`), and exports them unless told
    // otherwise. Understood by GNU ld since 2.35 and by lld since 13.
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo:rustc-link-arg-cdylib=-Wl,-z,start-stop-visibility=hidden");
        // By it a debugger finds the debug symbols of a release, which are files of their own.
        println!("cargo:rustc-link-arg-cdylib=-Wl,--build-id=sha1");
    }
}
