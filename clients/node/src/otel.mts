/** The entry point for `import`. */

export * from "./otel.js";
