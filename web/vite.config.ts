import { defineConfig } from "vite";

// One script that a page holds inside itself: no modules, no second file, no network.
export default defineConfig({
  build: {
    outDir: "../marey/picture/viewer",
    emptyOutDir: true,
    target: "es2022",
    lib: { entry: "src/viewer/main.ts", formats: ["iife"], name: "marey", fileName: () => "viewer.js" },
  },
});
