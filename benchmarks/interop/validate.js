// Prints the issues that the Khronos glTF validator finds in each file, as one JSON object.
// Usage: node validate.js FOLDER_OF_NODE_MODULES FILE...
const fs = require("fs");
const path = require("path");
const validator = require(path.join(process.argv[2], "gltf-validator"));

async function main() {
  const found = { version: validator.version(), files: {} };
  for (const file of process.argv.slice(3)) {
    const report = await validator.validateBytes(new Uint8Array(fs.readFileSync(file)), { uri: path.basename(file) });
    found.files[path.basename(file)] = report.issues;
  }
  console.log(JSON.stringify(found));
}

main();
