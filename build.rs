//! Keeps the shared library's symbols to itself: the server must see two of them, RedisModule_OnLoad and _OnUnload.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // The linker makes up symbols for the sections of a dependency's registries (`linkme`), and exports them unless told
    // otherwise. Understood by GNU ld since 2.35 and by lld since 13.
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo:rustc-link-arg-cdylib=-Wl,-z,start-stop-visibility=hidden");
    }
}
