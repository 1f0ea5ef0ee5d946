"""Give a motion to another body: proportions change, feet stay planted."""

import marey
from marey.contacts import ensure_contacts, slide_mm
from marey.picture import film_strip, save_image
from marey.skeleton import human

adult = ensure_contacts(marey.samples.walk())
child = marey.retarget(adult, human(1.2))
print("adult", adult.skeleton.rest_positions()[:, 1].max().round(2), "m to the head joint")
print("child", child.skeleton.rest_positions()[:, 1].max().round(2), "m to the head joint")
print(f"largest slide of a planted foot: {slide_mm(child).max():.2f} mm a frame")
marey.save(child, "03_child.glb")
save_image(film_strip(child), "03_child.png")
