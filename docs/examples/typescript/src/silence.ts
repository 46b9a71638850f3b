/**
 * Decides for how long a proxy that sends nothing keeps its append call. A lost proxy is left soon. One
 * that others find alive is only slow: to leave it would add to its load. Times are in ms, of one clock.
 */

export const TICK_MS = 50;
const PING_MS = 125;
const QUESTION_MS_MIN = 250; // silence until another proxy is asked, and the interval of questions
const QUESTION_MS_MAX = 500; // interval while the proxy was found alive
const SILENCE_MS_MAX = 1500;
const CONFIRMED_MS_MAX = 10_000;

export class Silence {
  /** Time of the last message, or since which results are due. */
  heardAt: number;
  private tickedAt: number;
  private confirmedAt = 0;
  private askedAt = 0;
  private pingedAt = 0;
  private intervalMs = QUESTION_MS_MIN;

  constructor(now: number) {
    this.heardAt = this.tickedAt = now;
  }

  /** Notes the time. While this process did not run, it read no message. */
  onTick(now: number): void {
    const lateMs = now - this.tickedAt - TICK_MS;
    if (lateMs > TICK_MS) {
      this.heardAt = Math.min(this.heardAt + lateMs, now);
      this.confirmedAt = Math.min(this.confirmedAt + lateMs, now);
    }
    this.tickedAt = now;
  }

  /** Notes what another proxy says. */
  onAnswer(now: number, isAlive: boolean): void {
    if (isAlive) this.confirmedAt = now;
    this.intervalMs = isAlive ? QUESTION_MS_MAX : QUESTION_MS_MIN;
  }

  /** Returns whether the proxy is to be sent an empty message now, and begins the next interval. */
  takePing(now: number): boolean {
    if (now - Math.max(this.heardAt, this.pingedAt) <= PING_MS) return false;
    this.pingedAt = now;
    return true;
  }

  /** Returns whether another proxy is to be asked now, and begins the next interval. */
  takeQuestion(now: number): boolean {
    if (this.askedAt <= this.heardAt) this.intervalMs = QUESTION_MS_MIN;
    if (now - Math.max(this.heardAt, this.askedAt) <= this.intervalMs) return false;
    this.askedAt = now;
    return true;
  }

  /** True if it is time to go to another proxy. */
  isOver(now: number): boolean {
    const unconfirmedMs = now - Math.max(this.heardAt, this.confirmedAt);
    return unconfirmedMs > SILENCE_MS_MAX || now - this.heardAt > CONFIRMED_MS_MAX;
  }
}
