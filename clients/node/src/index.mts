/** The entry point for `import`. It loads the same copy of each class as `require`. */

export * from "./index.js";
