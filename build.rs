//! Linker options of the shared library, which exports only the two symbols that the server looks up:
//! `RedisModule_OnLoad` and `RedisModule_OnUnload`.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // The crate `linkme`, a dependency's dependency, collects its items in sections. The linker exports symbols for
    // these sections, except with this option. GNU ld has the option since 2.35, lld since 13.
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo:rustc-link-arg-cdylib=-Wl,-z,start-stop-visibility=hidden");
        // By this ID, a debugger finds the debug symbols of a release, which are separate files.
        println!("cargo:rustc-link-arg-cdylib=-Wl,--build-id=sha1");
    }
}
