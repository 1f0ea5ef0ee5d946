"""A walk on your own character: the file's mesh, skin and names, our motion, the root motion on a bone of its own."""

import marey

# Any rigged .glb, .gltf or .fbx does. This one is our own capsule body, with a skin like any other.
marey.save(marey.load("run")[:1], "22_character.glb")
character = marey.io.load_character("22_character.glb")
print(character)

# A motion on another skeleton is retargeted first; clips of one file keep their names
clips = [marey.load("walk"), marey.load("jump")]
marey.save(clips, "22_moved.glb", onto="22_character.glb", root="bone")
marey.save(clips, "22_moved.fbx", onto="22_character.glb", root="bone")
marey.save(clips[0], "22_moved.usda", onto="22_character.glb")
print(marey.clips("22_moved.glb"))

# What an engine will show: the vertices of the mesh at some frames, and a strip of them
moved = marey.load("22_moved.glb", clip="walk")
print(marey.io.pose_vertices(character, moved, [0, 30]).shape)
marey.picture.save_image(marey.picture.film_strip(moved, count=6), "22_onto_a_character.png")
