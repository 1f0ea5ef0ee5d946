/** Which part of time the canvas shows, and the way between seconds and pixels. */

const MARK_PX = 64; // least distance of two labelled marks of the ruler
const CLOCK_S = [15, 30, 60, 120, 300, 600, 900, 1800, 3600];
const TICK_PX = 7; // least distance of two ticks

/** The next 1, 2 or 5 times a power of ten. */
export function roundStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least) + 1e-9);
  return [1, 2, 5].map((factor) => factor * power).find((step) => step >= least * 0.999) ?? 10 * power;
}

/** Decimals that tell multiples of a step apart. */
export function decimalsOf(step: number): number {
  return Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
}

export class TimeAxis {
  startS = 0;
  spanS: number;

  /** The whole of `durationS` lies between `leftPx` and `widthPx - rightPx`. */
  constructor(
    public durationS: number,
    public widthPx: number,
    public leftPx = 96,
    public rightPx = 0,
    public leastSpanS = 0.05,
  ) {
    this.spanS = this.wholeS;
  }

  get wholeS(): number {
    return Math.max(this.durationS, this.leastSpanS);
  }

  get stopS(): number {
    return this.startS + this.spanS;
  }

  get pixelsPerSecond(): number {
    return Math.max(1, this.widthPx - this.leftPx - this.rightPx) / this.spanS;
  }

  toPixels(timeS: number): number {
    return this.leftPx + (timeS - this.startS) * this.pixelsPerSecond;
  }

  toSeconds(pixel: number): number {
    return this.startS + (pixel - this.leftPx) / this.pixelsPerSecond;
  }

  /** Show `factor` times as much time; what lies under the pointer stays there. */
  zoom(factor: number, pixel: number): void {
    const fixed = this.toSeconds(pixel);
    const span = Math.min(Math.max(this.spanS * factor, this.leastSpanS), this.wholeS);
    this.startS = fixed - ((fixed - this.startS) * span) / this.spanS;
    this.spanS = span;
    this.pan(0);
  }

  pan(seconds: number): void {
    this.startS = Math.min(Math.max(this.startS + seconds, 0), this.wholeS - this.spanS);
  }

  /** Show from one time to another. */
  show(fromS: number, toS: number): void {
    this.spanS = Math.min(Math.max(toS - fromS, this.leastSpanS), this.wholeS);
    this.startS = fromS;
    this.pan(0);
  }

  /** Bring a time into view by the least pan, with a tenth of the view to spare; whether the view moved. */
  reveal(timeS: number): boolean {
    const [spare, before] = [0.1 * this.spanS, this.startS];
    if (timeS < this.startS) this.pan(timeS - spare - this.startS);
    else if (timeS > this.stopS) this.pan(timeS + spare - this.stopS);
    return this.startS !== before;
  }

  /** Another duration: a view of the whole stays one of the whole. */
  resize(durationS: number, widthPx: number): void {
    const isWhole = this.spanS >= this.wholeS;
    this.durationS = durationS;
    this.widthPx = widthPx;
    this.spanS = isWhole ? this.wholeS : Math.min(this.spanS, this.wholeS);
    this.pan(0);
  }

  /** Distances [s] of labelled marks and ticks, and the text of a mark: 1, 2 or 5 times a power of ten; no tick is finer than a frame. */
  ruler(rateHz: number): { markS: number; tickS: number; label: (mark: number) => string } {
    const leastOf = (pixels: number): number => {
      const least = pixels / this.pixelsPerSecond;
      // Beyond ten seconds the clock counts in parts of a minute
      return least > 10 ? (CLOCK_S.find((s) => s >= least * 0.999) ?? 3600 * Math.ceil(least / 3600)) : roundStep(least);
    };
    const markS = leastOf(MARK_PX);
    const decimals = decimalsOf(markS);
    const label = (mark: number): string => {
      const value = mark * markS;
      if (this.durationS < 60) return `${value.toFixed(decimals)} s`;
      const seconds = (value % 60).toFixed(decimals);
      return `${Math.floor(value / 60)}:${seconds.padStart(decimals > 0 ? 3 + decimals : 2, "0")}`;
    };
    // Ticks divide a mark evenly, and fall on frames once frames can be told apart
    let tickS = leastOf(TICK_PX);
    const parts = markS / tickS;
    if (Math.abs(parts - Math.round(parts)) > 1e-6) tickS = markS / 5;
    if (this.pixelsPerSecond / rateHz >= TICK_PX) tickS = 1 / rateHz;
    return { markS, tickS, label };
  }
}
