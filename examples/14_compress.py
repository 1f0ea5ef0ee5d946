"""Compress a clip with a bound on its error, and draw how much is saved as the bound grows."""

from matplotlib.figure import Figure

import marey
from marey.compression import rate_distortion

run = marey.samples.run(seconds=2.0)
data = marey.compress(run, max_error_m=1e-4)
again = marey.decompress(data, skeleton=run.skeleton)
print(f"{len(data)} bytes, joints within {1e6 * abs(again.joint_positions() - run.joint_positions()).max():.0f} µm")

# The bound holds for points on a shell of 3 cm around every joint, as ACL measures it.
reports = rate_distortion(run, max_errors_m=(1e-5, 1e-4, 1e-3))
for report in reports:
    print(f"{report.bytes} bytes, {report.ratio_acl:.0f} : 1, shell error {report.max_shell_error_mm:.3f} mm")

figure = Figure(figsize=(6, 4), layout="constrained")
axes = figure.add_subplot(xscale="log", xlabel="largest error on the shell [mm]", ylabel="times smaller")
axes.plot([report.max_shell_error_mm for report in reports], [report.ratio_acl for report in reports], "o-")
figure.savefig("14_compress.png")
