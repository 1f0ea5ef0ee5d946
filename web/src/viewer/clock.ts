/** Time of a player: running or paused, at a speed, within a range. Wall time is handed in. */

export const SPEEDS = [0.1, 0.25, 0.5, 1, 2] as const;

export class Clock {
  timeS = 0;
  speed = 1;
  isPlaying = true;
  isLooping = true;
  range: [number, number] | null = null;

  constructor(public durationS: number) {}

  get startS(): number {
    return this.range?.[0] ?? 0;
  }

  get stopS(): number {
    return this.range?.[1] ?? this.durationS;
  }

  /** Let wall time pass [s]; at the end of the range the clip starts again or stands. */
  advance(wallS: number): void {
    if (!this.isPlaying) return;
    const time = this.timeS + this.speed * wallS;
    const length = this.stopS - this.startS;
    if (time >= this.startS && time <= this.stopS) {
      this.timeS = time;
    } else if (this.isLooping && length > 0) {
      this.timeS = this.startS + ((((time - this.startS) % length) + length) % length);
    } else {
      this.timeS = this.speed > 0 ? this.stopS : this.startS;
      this.isPlaying = false;
    }
  }

  seek(timeS: number): void {
    this.timeS = Math.min(Math.max(timeS, 0), this.durationS);
  }

  /** Move by whole frames, onto a frame. */
  step(frames: number, rateHz: number): void {
    this.isPlaying = false;
    this.seek((Math.round(this.timeS * rateHz) + frames) / rateHz);
  }

  /** Begin or end the range here; an empty range is none. */
  mark(end: "in" | "out"): void {
    const range: [number, number] = end === "in" ? [this.timeS, this.stopS] : [this.startS, this.timeS];
    this.range = range[1] > range[0] ? range : null;
  }
}
