/** Curves over time: sampled channels that are drawn as they are, and keyed ones that can be edited. */

/** Keys of one channel; cubics between them, constant before the first and after the last. */
export interface CurveKeys {
  times: Float64Array; // sorted
  values: Float64Array;
  slopes: Float64Array; // value per second
  own: Float64Array; // slopes that were chosen; NaN where the neighbours tell, so that the curve is monotone
}

export interface Channel {
  name: string;
  colour: "bad" | "good" | "accent" | "left" | "right" | "warn"; // x, y, z are bad, good, accent
  samples: Pyramid | null; // the motion as it is
  keys: CurveKeys | null; // what is edited
}

/** Samples at a fixed rate with the least and greatest of each 8, 64, 512, ...: any stretch is drawn in a column's time. */
export class Pyramid {
  private static readonly FACTOR = 8;
  readonly lows: Float32Array[];
  readonly highs: Float32Array[];

  constructor(
    readonly values: Float32Array,
    readonly rateHz: number,
    readonly startS = 0,
  ) {
    this.lows = [values];
    this.highs = [values];
    while (this.lows.at(-1)!.length > Pyramid.FACTOR) {
      const [low, high] = [this.lows.at(-1)!, this.highs.at(-1)!];
      const count = Math.ceil(low.length / Pyramid.FACTOR);
      const [lows, highs] = [new Float32Array(count).fill(Infinity), new Float32Array(count).fill(-Infinity)];
      for (let i = 0; i < low.length; i++) {
        const to = Math.floor(i / Pyramid.FACTOR);
        if (low[i] < lows[to]) lows[to] = low[i];
        if (high[i] > highs[to]) highs[to] = high[i];
      }
      this.lows.push(lows);
      this.highs.push(highs);
    }
  }

  /** Least and greatest of samples [first, last), found over the coarsest blocks that fit. */
  bounds(first: number, last: number): [number, number] {
    let [from, to] = [Math.max(0, first), Math.min(this.values.length, last)];
    let [low, high] = [Infinity, -Infinity];
    for (let level = 0; from < to; level++) {
      const [lows, highs] = [this.lows[level], this.highs[level]];
      const take = (i: number): void => {
        if (lows[i] < low) low = lows[i];
        if (highs[i] > high) high = highs[i];
      };
      if (level === this.lows.length - 1 || to - from < 2 * Pyramid.FACTOR) {
        while (from < to) take(from++);
        break;
      }
      while (from % Pyramid.FACTOR !== 0) take(from++);
      while (to % Pyramid.FACTOR !== 0 && to > from) take(--to);
      from /= Pyramid.FACTOR;
      to /= Pyramid.FACTOR;
    }
    return [low, high];
  }
}

/** First index whose time is not less than `timeS`; `times` is sorted. */
export function lowerBound(times: ArrayLike<number>, timeS: number, first = 0): number {
  let [low, high] = [first, times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] < timeS) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Slopes of the monotone cubic through keys (Fritsch and Butland's, as the server's layers have them). */
export function fitSlopes(times: Float64Array, values: Float64Array): Float64Array {
  const last = times.length - 1;
  const slopes = new Float64Array(times.length);
  if (last < 1) return slopes;
  const step = (i: number): number => Math.max(times[i + 1] - times[i], 1e-6); // two keys that meet during a drag
  const rise = (i: number): number => (values[i + 1] - values[i]) / step(i);
  for (let i = 1; i < last; i++) {
    const [d0, d1] = [rise(i - 1), rise(i)];
    if (d0 * d1 <= 0) continue;
    const [w0, w1] = [2 * step(i) + step(i - 1), step(i) + 2 * step(i - 1)];
    slopes[i] = (w0 + w1) / (w0 / d0 + w1 / d1);
  }
  // At the ends the three-point formula, as far as it keeps the shape
  const edge = (near: number, far: number): number => {
    const [h0, h1, m0, m1] = [step(near), step(far), rise(near), rise(far)];
    const slope = ((2 * h0 + h1) * m0 - h0 * m1) / (h0 + h1);
    if (Math.sign(slope) !== Math.sign(m0)) return 0;
    return Math.sign(m0) !== Math.sign(m1) && Math.abs(slope) > 3 * Math.abs(m0) ? 3 * m0 : slope;
  };
  slopes[0] = last === 1 ? rise(0) : edge(0, 1);
  slopes[last] = last === 1 ? rise(0) : edge(last - 1, last - 2);
  return slopes;
}

export function keyCurve(times: Float64Array, values: Float64Array, own: Float64Array = new Float64Array(times.length).fill(NaN)): CurveKeys {
  return { times, values, slopes: fitSlopes(times, values).map((slope, i) => (Number.isNaN(own[i]) ? slope : own[i])), own };
}

/** The curve with another slope at a key; NaN leaves it to the neighbours again. */
export function setSlope({ times, values, own }: CurveKeys, index: number, slope: number): CurveKeys {
  return keyCurve(times, values, own.map((old, i) => (i === index ? slope : old)));
}

/** Value of a keyed curve: h00 p0 + h10 h m0 + h01 p1 + h11 h m1. */
export function evaluate(keys: CurveKeys, timeS: number): number {
  const { times, values } = keys;
  const last = times.length - 1;
  if (last < 0) return 0;
  if (timeS <= times[0]) return values[0];
  if (timeS >= times[last]) return values[last];
  const high = lowerBound(times, timeS);
  const low = high - 1;
  const h = times[high] - times[low];
  const u = (timeS - times[low]) / h;
  const [u2, u3] = [u * u, u * u * u];
  return (
    (2 * u3 - 3 * u2 + 1) * values[low] + (u3 - 2 * u2 + u) * h * keys.slopes[low] +
    (3 * u2 - 2 * u3) * values[high] + (u3 - u2) * h * keys.slopes[high]
  );
}

/** Value of a channel at a time: of its keys, else of the nearest sample. */
export function valueAt({ keys, samples }: Channel, timeS: number): number {
  if (keys !== null || samples === null) return keys === null ? 0 : evaluate(keys, timeS);
  return samples.values[Math.min(Math.max(Math.round((timeS - samples.startS) * samples.rateHz), 0), samples.values.length - 1)] ?? 0;
}

/** Times of keys of which the selected ones move: sorted again, with `order[new] = old` and where the selected ones went. Stable. */
export function moveTimes(old: Float64Array, picked: Int32Array, dtS: number): { times: Float64Array; order: Int32Array; selected: Int32Array } {
  const times = old.slice();
  for (const i of picked) times[i] += dtS;
  const order = Int32Array.from(times.keys()).sort((a, b) => times[a] - times[b] || a - b);
  const chosen = new Set(picked);
  const selected = Int32Array.from(order.keys()).filter((i) => chosen.has(order[i]));
  return { times: Float64Array.from(order, (i) => times[i]), order, selected };
}

/** Keys of the curve moved in time and value, and where the selected ones went. Nothing is dropped where two meet. */
export function moveCurveKeys(keys: CurveKeys, picked: Int32Array, dtS: number, dv: number): { keys: CurveKeys; selected: Int32Array } {
  const { times, order, selected } = moveTimes(keys.times, picked, dtS);
  const values = keys.values.slice();
  for (const i of picked) values[i] += dv;
  const pick = (from: Float64Array): Float64Array => Float64Array.from(order, (i) => from[i]);
  return { keys: keyCurve(times, pick(values), pick(keys.own)), selected };
}

/** Least and greatest value of channels within a stretch of time; never empty. */
export function valueBounds(channels: readonly Channel[], fromS: number, toS: number): [number, number] {
  let [low, high] = [Infinity, -Infinity];
  for (const { samples, keys } of channels) {
    if (samples !== null) {
      const at = (t: number): number => (t - samples.startS) * samples.rateHz;
      const [a, b] = samples.bounds(Math.floor(at(fromS)), Math.ceil(at(toS)) + 1);
      [low, high] = [Math.min(low, a), Math.max(high, b)];
    }
    if (keys !== null && keys.times.length > 0) {
      for (let i = 0; i <= 64; i++) {
        const value = evaluate(keys, fromS + ((toS - fromS) * i) / 64);
        [low, high] = [Math.min(low, value), Math.max(high, value)];
      }
      keys.times.forEach((t, i) => {
        if (t < fromS || t > toS) return;
        [low, high] = [Math.min(low, keys.values[i]), Math.max(high, keys.values[i])];
      });
    }
  }
  if (!(low <= high)) return [-1, 1];
  const spare = Math.max(0.08 * (high - low), 1e-3);
  return [low - spare, high + spare];
}
