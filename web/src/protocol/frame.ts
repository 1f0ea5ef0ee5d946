/** Binary frames of the socket: uint32 header length, msgpack header, padding to 8 bytes, raw little-endian arrays. */

import { decode, encode } from "@msgpack/msgpack";
import type { ClientMessage, ServerMessage } from "../../build/messages";

const KINDS = { f4: Float32Array, i4: Int32Array, u1: Uint8Array } as const;
const ALIGN = 8;

function align(bytes: number): number {
  return Math.ceil(bytes / ALIGN) * ALIGN;
}

/** Read one frame; arrays become views of the buffer, without a copy. */
export function decodeFrame(buffer: ArrayBuffer): ServerMessage {
  if (buffer.byteLength < 4) throw new Error("a frame is shorter than its header");
  const size = new DataView(buffer).getUint32(0, true);
  if (4 + size > buffer.byteLength) throw new Error(`a frame of ${buffer.byteLength} bytes announces ${size}`);
  const header = decode(new Uint8Array(buffer, 4, size));
  const body = align(4 + size);
  const message = restore(header, buffer, body);
  if (typeof message !== "object" || message === null || typeof (message as ServerMessage).t !== "string") {
    throw new Error("a frame has no type");
  }
  return message as ServerMessage;
}

function restore(value: unknown, buffer: ArrayBuffer, body: number): unknown {
  if (Array.isArray(value)) return value.map((item) => restore(item, buffer, body));
  if (typeof value !== "object" || value === null || value instanceof Uint8Array) return value;
  const entries = value as Record<string, unknown>;
  if (Array.isArray(entries.$)) {
    const [offset, kind, shape] = entries.$ as [number, keyof typeof KINDS, number[]];
    const count = shape.reduce((product, side) => product * side, 1);
    const at = body + offset;
    const Kind = KINDS[kind];
    if (Kind === undefined || offset < 0 || at + count * Kind.BYTES_PER_ELEMENT > buffer.byteLength) {
      throw new Error(`an array of a frame lies outside it: ${kind} ${shape.join(" x ")}`);
    }
    return new Kind(buffer, at, count);
  }
  const out: Record<string, unknown> = {};
  for (const key of Object.keys(entries)) out[key] = restore(entries[key], buffer, body);
  return out;
}

/** Write one frame. The page sends no arrays; its messages are small. */
export function encodeFrame(message: ClientMessage): Uint8Array<ArrayBuffer> {
  const header = encode(message, { ignoreUndefined: true });
  const frame = new Uint8Array(align(4 + header.length));
  new DataView(frame.buffer).setUint32(0, header.length, true);
  frame.set(header, 4);
  return frame;
}
