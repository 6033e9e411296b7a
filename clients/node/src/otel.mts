/** The same for `import`. */

export * from "./otel.js";
