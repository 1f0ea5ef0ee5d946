"""FBX files, binary and ASCII, by the library ufbx in a child process."""
