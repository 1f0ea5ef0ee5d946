import { defineConfig } from "vite";

// The studio: one page, one script, one style sheet, with names that the server knows.
export default defineConfig({
  base: "./",
  build: {
    outDir: "../marey/studio/web/static",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    chunkSizeWarningLimit: 2000,
    rollupOptions: {
      output: {
        inlineDynamicImports: true,
        entryFileNames: "studio.js",
        assetFileNames: (asset) => (asset.names[0]?.endsWith(".css") ? "studio.css" : "[name][extname]"),
      },
    },
  },
  esbuild: { jsx: "automatic", jsxImportSource: "preact" },
});
