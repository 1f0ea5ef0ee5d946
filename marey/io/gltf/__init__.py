"""glTF 2.0 files, `.glb` and `.gltf`, in and out."""
