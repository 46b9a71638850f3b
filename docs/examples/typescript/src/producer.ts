import type { ClientDuplexStream } from "@grpc/grpc-js";
import { randomBytes } from "node:crypto";

import { Route, type Client } from "./client.js";
import { errorOf, refusal, unavailable, type RhumblineError } from "./errors.js";
import {
  AppendItem, AppendRequest, ProxyHealth, RecordAttributes, type AppendAnswer, type AppendResponse, type Position,
} from "./gen/rhumbline.js";
import { Silence, TICK_MS } from "./silence.js";

const SETS_IN_FLIGHT = 64;
const SET_RECORDS_MAX = 500;
const SET_BYTES_MAX = 256 << 10;
const OUTSTANDING_BYTES_MAX = 8 << 20;
const DEADLINE_MS = 30_000;

/** The record may or may not be in the stream; `cause` says why. */
export class OutcomeUnknownError extends Error {}

interface Appending {
  payload: Buffer;
  attributes?: RecordAttributes;
  resolve: (position: Position | undefined) => void;
  reject: (error: Error) => void;
}

/** A record set: records with consecutive numbers. */
export interface RecordSet {
  first: number;
  records: Appending[];
  deadline: number;
  /** True if it may have arrived at a proxy. */
  sent: boolean;
}

/**
 * Appends records in order. It numbers them, so that a record is stored once although it may be sent
 * several times.
 */
export class Producer {
  private readonly id = randomBytes(16);
  private readonly route: Route;
  private sequence = 0;
  private queue: Appending[] = []; // not in a set yet
  private sets: RecordSet[] = []; // without a result, in order
  private outstandingBytes = 0;
  private call?: ClientDuplexStream<AppendRequest, AppendResponse>;
  private timer?: NodeJS.Timeout;
  private silence = new Silence(Date.now());
  private isScheduled = false;
  private isPausing = false;
  private failure?: Error;
  private waiters: (() => void)[] = []; // for a change of what is outstanding

  constructor(
    private readonly client: Client, private readonly namespace: string, private readonly stream: string,
  ) {
    this.route = new Route(client, "write");
  }

  /**
   * Appends a record, with its key, headers and event time if it has any. The promise is fulfilled when
   * the record is durable, with its position, or with undefined if it is certainly in the stream and the
   * proxy did not find where. Records are stored in the order of the calls; after a takeover their
   * promises may be fulfilled in another order.
   */
  append(payload: Buffer, attributes?: RecordAttributes): Promise<Position | undefined> {
    if (this.failure) return Promise.reject(this.failure);
    this.outstandingBytes += payload.length;
    return new Promise((resolve, reject) => {
      this.queue.push({ payload, attributes, resolve, reject });
      this.schedule();
    });
  }

  /** Waits until there is room for more records. */
  async room(): Promise<void> {
    while (!this.failure && this.outstandingBytes > OUTSTANDING_BYTES_MAX) await this.change();
  }

  /** Waits until every record has a result, and ends the call. */
  async close(): Promise<void> {
    while (this.sets.length + this.queue.length > 0) await this.change();
    this.failure ??= new Error("the producer is closed");
    this.endCall();
  }

  private change(): Promise<void> {
    return new Promise((resolve) => this.waiters.push(resolve));
  }

  private changed(): void {
    for (const wake of this.waiters.splice(0)) wake();
  }

  /** Sends soon, so that records which are appended together share a set. */
  private schedule(): void {
    if (this.isScheduled) return;
    this.isScheduled = true;
    setImmediate(() => {
      this.isScheduled = false;
      this.pump();
    });
  }

  private pump(): void {
    if (this.failure || this.isPausing || this.sets.length + this.queue.length === 0) return;
    if (this.call === undefined) this.open();
    if (this.sets.length === 0) this.silence.heardAt = Date.now();
    while (this.queue.length > 0 && this.sets.length < SETS_IN_FLIGHT) {
      const set = this.gather();
      this.sets.push(set);
      this.send(set, {});
    }
  }

  private gather(): RecordSet {
    const records: Appending[] = [];
    let size = 0;
    while (this.queue.length > 0 && records.length < SET_RECORDS_MAX && size < SET_BYTES_MAX) {
      const next = this.queue.shift()!;
      size += next.payload.length;
      records.push(next);
    }
    const set = { first: this.sequence, records, deadline: Date.now() + DEADLINE_MS, sent: false };
    this.sequence += records.length;
    return set;
  }

  // A failed call settles every set in flight, so each call begins with all sets that have no result,
  // in order.
  private open(): void {
    const call = this.client.stub(this.route.next()).append();
    this.call = call;
    call.on("data", (response: AppendResponse) => call === this.call && this.onResponse(response));
    call.on("error", (error) => call === this.call && void this.onEnd(errorOf(error)));
    call.on("end", () => call === this.call && void this.onEnd(unavailable("the proxy ended the call")));
    this.silence = new Silence(Date.now());
    this.timer = setInterval(() => this.onTick(call), TICK_MS);
    this.sets.forEach((set, at) => this.send(set, at === 0 ? { restarts: true, tried: this.route.tried } : {}));
  }

  private send(set: RecordSet, more: Partial<AppendItem>): void {
    set.sent = true;
    const item = AppendItem.fromPartial({
      id: BigInt(set.first),
      namespace: this.namespace,
      stream: this.stream,
      payloads: set.records.map((record) => record.payload),
      attributes: set.records.some((record) => record.attributes)
        ? set.records.map((record) => record.attributes ?? RecordAttributes.create())
        : [],
      producer: this.id,
      firstSequence: BigInt(set.first),
      ...more,
    });
    this.call!.write(AppendRequest.fromPartial({ items: [item], clientRegion: this.client.region }));
  }

  private onTick(call: ClientDuplexStream<AppendRequest, AppendResponse>): void {
    const now = Date.now();
    this.silence.onTick(now);
    if (this.sets.length === 0) return;
    if (this.silence.isOver(now)) void this.onEnd(unavailable("the proxy is silent"));
    else if (now > this.sets[0]!.deadline) void this.onEnd(unavailable("no answer before the deadline"));
    else {
      if (this.silence.takePing(now)) call.write(AppendRequest.fromPartial({}));
      if (this.silence.takeQuestion(now)) void this.ask(call);
    }
  }

  private async ask(call: ClientDuplexStream<AppendRequest, AppendResponse>): Promise<void> {
    const health = await this.client.health(this.route.next());
    if (call !== this.call) return;
    if (health === ProxyHealth.PROXY_HEALTH_LOST) void this.onEnd(unavailable("the proxy is lost"));
    else this.silence.onAnswer(Date.now(), health === ProxyHealth.PROXY_HEALTH_ALIVE);
  }

  private onResponse(response: AppendResponse): void {
    this.silence.heardAt = Date.now();
    let refused: RhumblineError | undefined;
    for (const answer of response.answers) {
      const result = settle(this.sets, answer);
      this.sets = result.left;
      this.outstandingBytes -= result.bytes;
      refused ??= result.refused;
    }
    this.changed();
    if (refused) void this.onEnd(refused);
    else {
      if (response.answers.length > 0) this.route.served();
      this.pump();
    }
  }

  private endCall(): void {
    clearInterval(this.timer);
    const call = this.call;
    this.call = undefined;
    call?.cancel();
  }

  private async onEnd(error: RhumblineError): Promise<void> {
    this.endCall();
    if (this.sets.length + this.queue.length === 0) {
      this.route.forget(); // an idle call ended, and nothing was lost
      return;
    }
    this.isPausing = true;
    try {
      await this.route.failed(error, this.sets[0]?.deadline ?? Infinity);
    } catch (failure) {
      this.fail(failure as Error);
    }
    this.isPausing = false;
    this.pump();
  }

  private fail(failure: Error): void {
    this.failure = failure;
    const unknown = new OutcomeUnknownError("the record may have been appended", { cause: failure });
    for (const set of this.sets) {
      for (const record of set.records) record.reject(set.sent ? unknown : failure);
    }
    for (const record of this.queue) record.reject(failure);
    this.sets = [];
    this.queue = [];
    this.changed();
  }
}

/** Notes an answer. Returns the sets that have none yet, the bytes of the others, and a refusal. */
export function settle(
  sets: RecordSet[], answer: AppendAnswer,
): { left: RecordSet[]; bytes: number; refused?: RhumblineError } {
  const error = answer.error && refusal(answer.error);
  const isRefused = error !== undefined && error.step !== "stored";
  let bytes = 0;
  const left = sets.filter((set) => {
    const at = answer.ids.indexOf(BigInt(set.first));
    if (at < 0) return true;
    if (isRefused) {
      set.sent = error.code === "append-outcome-unknown";
      return true;
    }
    set.records.forEach((record, index) => {
      bytes += record.payload.length;
      record.resolve(error ? undefined : {
        lssn: answer.lssns[at]!, entryId: answer.entryIds[at]!, slot: answer.slots[at]! + BigInt(index),
        streamId: answer.streamId,
      });
    });
    return false;
  });
  return { left, bytes, refused: isRefused ? error : undefined };
}
