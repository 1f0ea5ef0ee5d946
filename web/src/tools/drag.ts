/** A drag on its own channel: one question is under way at a time, and the newest position of the pointer follows its answer. */

import type { LiveFrame, Session } from "../project/session";

type Args = Record<string, unknown>;
type Wire = Pick<Session, "openChannel" | "closeChannel" | "sendDrag">;

export class DragChannel {
  private readonly channel: string;
  private n = 0;
  private waiting: { args: Args; movedMs: number } | null = null;
  private askedMs: number | null = null; // when the pointer moved to where the answer under way will be
  private isOver = false;

  constructor(
    private readonly wire: Wire,
    private readonly tool: string,
    settings: Args,
    private readonly onAnswer: (answer: LiveFrame, movedMs: number) => void, // and when the pointer had moved there
  ) {
    this.channel = wire.openChannel((answer) => this.receive(answer));
    wire.sendDrag(this.channel, "begin", tool, settings);
  }

  move(args: Args, movedMs = performance.now()): void {
    if (this.isOver) return;
    // The first move that waits tells how late its answer comes
    this.waiting = { args, movedMs: this.waiting?.movedMs ?? movedMs };
    if (this.askedMs === null) this.ask();
  }

  /** Finish; the server makes one command of it. */
  end(args: Args): void {
    if (this.isOver) return;
    this.isOver = true;
    this.wire.sendDrag(this.channel, "end", this.tool, args, ++this.n);
    this.wire.closeChannel(this.channel);
  }

  /** Leave without a command. */
  cancel(): void {
    this.end({ cancel: true });
  }

  private ask(): void {
    const { waiting } = this;
    this.askedMs = null;
    // Without a connection the move waits for the next one
    if (waiting === null || !this.wire.sendDrag(this.channel, "move", this.tool, waiting.args, ++this.n)) return;
    this.askedMs = waiting.movedMs;
    this.waiting = null;
  }

  private receive(answer: LiveFrame): void {
    if (this.isOver || answer.n !== this.n) return;
    const movedMs = this.askedMs ?? performance.now();
    // The server computes the next answer while this one is drawn
    this.ask();
    this.onAnswer(answer, movedMs);
  }
}
