/** The same for `import`: one copy of each class, whichever way a program loads it. */

export * from "./index.js";
