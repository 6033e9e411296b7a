/** The entry point for `import`. */

export * from "./testing.js";
