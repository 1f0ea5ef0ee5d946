/** One socket to the server: hello, reconnection with growing pauses, and a fresh hello after a gap in the sequence. */

import { decodeFrame, encodeFrame } from "./frame";
import type { ClientMessage, HelloMessage, ServerMessage } from "../../build/messages";

export type Link = "connecting" | "open" | "lost";

export interface SocketEvents {
  onLink(link: Link): void;
  onMessage(message: ServerMessage): void;
  /** A patch was missed: the mirror is to be thrown away when the next welcome comes. */
  onGap(): void;
}

const FIRST_PAUSE_MS = 400;
const LONGEST_PAUSE_MS = 8000;
const BUFFER_LIMIT = 4 << 20; // bytes that wait in the socket before drags are left out

/** What of a WebSocket is used, so that tests can stand in for it. */
export interface Wire {
  binaryType: string;
  readonly readyState: number;
  readonly bufferedAmount: number;
  send(data: Uint8Array<ArrayBuffer>): void;
  close(): void;
  onopen: ((event: Event) => void) | null;
  onmessage: ((event: MessageEvent) => void) | null;
  onclose: ((event: CloseEvent) => void) | null;
}

export class Socket {
  private wire: Wire | null = null;
  private seq = -1;
  private pauseMs = FIRST_PAUSE_MS;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private isGreeted = false;
  private waiting: ClientMessage[] = [];

  constructor(
    private readonly hello: HelloMessage,
    private readonly events: SocketEvents,
    private readonly open: () => Wire,
  ) {
    this.events.onLink("connecting");
    this.connect();
  }

  /** Send now, or after the next welcome. */
  send(message: ClientMessage): void {
    if (this.isGreeted && this.wire?.readyState === 1) this.wire.send(encodeFrame(message));
    else this.waiting.push(message);
  }

  /** Send now or not at all: for drags and live input, of which only the newest counts. Tells whether it was sent. */
  sendNow(message: ClientMessage): boolean {
    if (!this.isGreeted || this.wire?.readyState !== 1 || this.wire.bufferedAmount > BUFFER_LIMIT) return false;
    this.wire.send(encodeFrame(message));
    return true;
  }

  /** Try at once, instead of when the pause is over. */
  retry(): void {
    if (this.wire !== null) return;
    clearTimeout(this.timer);
    this.connect();
  }

  dispose(): void {
    clearTimeout(this.timer);
    if (this.wire !== null) this.wire.onclose = null;
    this.wire?.close();
  }

  private connect(): void {
    const wire = this.open();
    this.wire = wire;
    wire.binaryType = "arraybuffer";
    wire.onopen = () => wire.send(encodeFrame(this.hello));
    wire.onmessage = (event) => this.receive(event.data as ArrayBuffer);
    wire.onclose = () => {
      this.wire = null;
      this.isGreeted = false;
      this.events.onLink("lost");
      // The link stays "lost" while it is tried again, so that the sign in the corner does not flicker
      this.timer = setTimeout(() => this.connect(), this.pauseMs);
      this.pauseMs = Math.min(2 * this.pauseMs, LONGEST_PAUSE_MS);
    };
  }

  private receive(data: ArrayBuffer): void {
    const message = decodeFrame(data);
    if (message.t === "welcome") {
      this.seq = message.seq;
      this.pauseMs = FIRST_PAUSE_MS;
      this.isGreeted = true;
      this.events.onLink("open");
      this.events.onMessage(message);
      for (const late of this.waiting.splice(0)) this.send(late);
      return;
    }
    if (message.t === "patch") {
      const seq = message.seq;
      if (seq <= this.seq) return; // known already
      if (seq !== this.seq + 1) {
        this.isGreeted = false;
        this.events.onGap();
        this.wire?.send(encodeFrame(this.hello));
        return;
      }
      this.seq = seq;
    }
    this.events.onMessage(message);
  }
}
