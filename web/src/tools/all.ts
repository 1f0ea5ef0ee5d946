/** Tools that bring handles or panel parts of their own; all others are drawn from the registry alone. */

import "./pose/pose";
import "./pose/footprints";
import "./path/path";
import "./walk/walk";
import "./figures/figures";
import "./physics/physics";
import "./library/library";
import "./library/import";
