import type { ClientDuplexStream } from "@grpc/grpc-js";

import { Route, type Client } from "./client.js";
import { errorOf, unavailable } from "./errors.js";
import { ReadRequest, type Position, type ReadResponse, type Record as StreamRecord } from "./gen/rhumbline.js";

const CREDIT_RECORDS = 1000;
const CREDIT_BYTES = 4 << 20;
const HEARTBEAT_MS = 1000;
const SILENCE_MS_MAX = 3500;
const UNAVAILABLE_MS_MAX = 60_000; // time without any response after which reading fails

type ReadCall = ClientDuplexStream<ReadRequest, ReadResponse>;

/** Reads the records of a stream in order: `for await (const record of reader)`. */
export class Reader implements AsyncIterable<StreamRecord> {
  private readonly route: Route;
  private count = 0n; // consumed since credit was granted last
  private bytes = 0n;
  private failingSince?: number;

  constructor(
    private readonly client: Client,
    private readonly namespace: string,
    private readonly stream: string,
    /** The position after the last record that was returned, to be stored with what was made of it. */
    public position?: Position,
  ) {
    this.route = new Route(client, "read");
  }

  /** Yields records until the stream ends. It waits at the end of a stream that is not ended. */
  async *[Symbol.asyncIterator](): AsyncGenerator<StreamRecord> {
    for (;;) {
      const call = this.open();
      try {
        const responses = call[Symbol.asyncIterator]();
        for (;;) {
          const response = await next(responses);
          this.route.served();
          this.failingSince = undefined;
          this.position ??= response.start?.position;
          if (response.isEnd) return;
          for (const record of response.records) {
            const position = record.position!;
            this.position = { ...position, slot: position.slot + 1n };
            yield record;
            this.consume(call, record);
          }
        }
      } catch (error) {
        this.failingSince ??= Date.now();
        await this.route.failed(errorOf(error), this.failingSince + UNAVAILABLE_MS_MAX);
      } finally {
        call.cancel();
      }
    }
  }

  private open(): ReadCall {
    const call = this.client.stub(this.route.next()).read();
    call.on("error", () => undefined); // the iterator throws it; after that it is of no interest
    this.count = this.bytes = 0n;
    call.write(ReadRequest.fromPartial({
      namespace: this.namespace,
      stream: this.stream,
      position: this.position,
      decodesRecords: true,
      creditRecords: BigInt(CREDIT_RECORDS),
      creditBytes: BigInt(CREDIT_BYTES),
      heartbeatMs: HEARTBEAT_MS,
      tried: this.route.tried,
    }));
    return call;
  }

  /** Grants what the application has consumed, half of the credit at a time. */
  private consume(call: ReadCall, record: StreamRecord): void {
    this.count += 1n;
    const headers = record.headers.reduce((sum, { name, value }) => sum + name.length + value.length, 0);
    this.bytes += BigInt(record.payload.length + (record.key?.length ?? 0) + headers);
    if (2n * this.count < CREDIT_RECORDS && 2n * this.bytes < CREDIT_BYTES) return;
    call.write(ReadRequest.fromPartial({ creditRecords: this.count, creditBytes: this.bytes }));
    this.count = this.bytes = 0n;
  }
}

async function next(responses: AsyncIterator<ReadResponse>): Promise<ReadResponse> {
  let timer: NodeJS.Timeout | undefined;
  const silence = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(unavailable("the proxy sends no heartbeats")), SILENCE_MS_MAX);
  });
  try {
    const result = await Promise.race([responses.next(), silence]);
    if (result.done) throw unavailable("the proxy ended the call");
    return result.value;
  } finally {
    clearTimeout(timer);
  }
}
