/** A drag on its own channel: at most one question per animation frame, the first at once, the newest wins, old answers are dropped. */

import type { LiveFrame, Session } from "../project/session";

type Args = Record<string, unknown>;
type Wire = Pick<Session, "openChannel" | "closeChannel" | "sendDrag">;

export class DragChannel {
  private readonly channel: string;
  private n = 0;
  private shown = 0;
  private waiting: Args | null = null;
  private isPaused = false; // until the next frame
  private isOver = false;
  private readonly sentMs = new Map<number, number>();
  private movedMs = 0;

  constructor(
    private readonly wire: Wire,
    private readonly tool: string,
    settings: Args,
    private readonly onAnswer: (answer: LiveFrame, movedMs: number) => void, // and when the pointer had moved there
    private readonly nextFrame: (act: () => void) => unknown = (act) => requestAnimationFrame(act),
  ) {
    this.channel = wire.openChannel((answer) => this.receive(answer));
    wire.sendDrag(this.channel, this.n, "begin", tool, settings);
  }

  move(args: Args): void {
    if (this.isOver) return;
    if (this.waiting === null) this.movedMs = performance.now();
    this.waiting = args;
    if (!this.isPaused) this.flush();
  }

  /** Finish; the server makes one command of it. */
  end(args: Args): void {
    if (this.isOver) return;
    this.isOver = true;
    this.waiting = null;
    this.wire.sendDrag(this.channel, ++this.n, "end", this.tool, args);
    this.wire.closeChannel(this.channel);
  }

  /** Leave without a command. */
  cancel(): void {
    this.end({ cancel: true });
  }

  private flush(): void {
    this.isPaused = false;
    if (this.waiting === null || this.isOver) return;
    this.sentMs.set(++this.n, this.movedMs);
    this.wire.sendDrag(this.channel, this.n, "move", this.tool, this.waiting);
    this.waiting = null;
    this.isPaused = true;
    this.nextFrame(() => this.flush());
  }

  private receive(answer: LiveFrame): void {
    const sent = this.sentMs.get(answer.n);
    for (const n of [...this.sentMs.keys()]) if (n <= answer.n) this.sentMs.delete(n);
    if (answer.n < this.shown || this.isOver) return;
    this.shown = answer.n;
    this.onAnswer(answer, sent ?? performance.now());
  }
}
