/**
 * A small client of Rhumbline's proxies: numbered appends, and reading with flow control. Both survive
 * the loss of any proxy. The rules are those of the page "gRPC API".
 */

import {
  Metadata, credentials, type CallCredentials, type ChannelCredentials, type ChannelOptions, type ServiceError,
} from "@grpc/grpc-js";
import { setTimeout as sleep } from "node:timers/promises";

import { errorOf, unavailable, type RhumblineError } from "./errors.js";
import {
  ListProxiesResponse, ProxyHealth, RhumblineClient, type Position, type Proxy,
} from "./gen/rhumbline.js";
import { Producer } from "./producer.js";
import { Reader } from "./reader.js";

const LIST_TIMEOUT_MS = 1000;
const CALL_TIMEOUT_MS = 5000;
const PAUSE_MS_MIN = 10;
const PAUSE_MS_MAX = 250;
const FREE_ATTEMPTS = 2; // changes of the proxy without a pause

/** A unary method of the stub. */
export type Unary<Request, Response> = (
  request: Request,
  metadata: Metadata,
  options: { deadline: Date },
  done: (error: ServiceError | null, response: Response) => void,
) => unknown;

/** Identifies the caller: `credentials.combineChannelCredentials(credentials.createSsl(ca), token("..."))`. */
export function token(text: string): CallCredentials {
  return credentials.createFromMetadataGenerator((_, done) => {
    const metadata = new Metadata();
    metadata.set("authorization", `Bearer ${text}`);
    done(null, metadata);
  });
}

/** Knows the proxies of a cluster and keeps a connection to each one that it uses. */
export class Client {
  region = "";
  private proxies: Proxy[] = [];
  private readonly stubs = new Map<string, RhumblineClient>();
  private refreshing?: Promise<void>;

  private constructor(
    private readonly seeds: readonly string[],
    private readonly channel: ChannelCredentials,
    private readonly options: ChannelOptions,
  ) {}

  /** Reads the list of proxies from the first seed (host:port) that responds. */
  static async connect(
    seeds: readonly string[], channel = credentials.createInsecure(), options: ChannelOptions = {},
  ): Promise<Client> {
    const client = new Client(seeds, channel, options);
    try {
      await client.refresh();
    } catch (error) {
      client.close();
      throw error;
    }
    return client;
  }

  /** Closes all connections; close producers first. */
  close(): void {
    for (const stub of this.stubs.values()) stub.close();
    this.stubs.clear();
  }

  /** Returns a producer with a new id. */
  producer(namespace: string, stream: string): Producer {
    return new Producer(this, namespace, stream);
  }

  /** Returns a reader from a position on, such as a stored one of another reader; else from the start. */
  reader(namespace: string, stream: string, from?: Position): Reader {
    return new Reader(this, namespace, stream, from);
  }

  /** Makes a unary call at one proxy after the other, until one serves it or refuses it for good. */
  async call<Request, Response>(
    method: (stub: RhumblineClient) => Unary<Request, Response>, request: Request, timeoutMs = 30_000,
  ): Promise<Response> {
    const route = new Route(this, "");
    const giveUpAt = Date.now() + timeoutMs;
    for (;;) {
      try {
        return await unary(this.stub(route.next()), method, request, CALL_TIMEOUT_MS);
      } catch (error) {
        await route.failed(errorOf(error), giveUpAt);
      }
    }
  }

  /** Asks another proxy about a silent one. */
  async health(silent: string): Promise<ProxyHealth> {
    const stub = this.stub(this.candidates("", [silent])[0]!);
    const request = { address: silent, isIndirect: false, isForwarded: false };
    try {
      const found = await unary(stub, (one) => one.probeProxy.bind(one), request, LIST_TIMEOUT_MS);
      return found.health;
    } catch {
      return ProxyHealth.PROXY_HEALTH_UNKNOWN; // it may be silent too
    }
  }

  /** Reads the list of proxies again, from any proxy that responds. */
  async refresh(): Promise<void> {
    let failure: RhumblineError = unavailable("no seeds");
    for (const address of this.candidates("", [])) {
      try {
        const request = { viewerRegion: this.region, withLoad: false };
        const listed: ListProxiesResponse = await unary(
          this.stub(address), (stub) => stub.listProxies.bind(stub), request, LIST_TIMEOUT_MS,
        );
        if (listed.proxies.length === 0) continue;
        this.proxies = listed.proxies;
        this.region ||= listed.region;
        return;
      } catch (error) {
        failure = errorOf(error);
      }
    }
    throw failure;
  }

  /** Reads the list in the background, because a proxy failed; the old one is kept if none responds. */
  refreshSoon(): void {
    this.refreshing ??= this.refresh()
      .catch(() => undefined)
      .finally(() => (this.refreshing = undefined));
  }

  /**
   * Returns the names of the proxies with a role ("": any): those of this region that accept streams
   * first, then the seeds; without the ones that were tried, unless all were.
   */
  candidates(role: string, tried: readonly string[]): string[] {
    const rank = (proxy: Proxy) => (proxy.region === this.region && proxy.isAccepting ? 0 : 1) + Math.random();
    const known = this.proxies
      .filter((proxy) => role === "" || proxy.roles.includes(role))
      .map((proxy): [number, string] => [rank(proxy), proxy.address])
      .sort(([one], [other]) => one - other)
      .map(([, address]) => address);
    const all = [...known, ...this.seeds];
    const untried = all.filter((address) => !tried.includes(address));
    return untried.length > 0 ? untried : all;
  }

  /** Returns the stub for a proxy. A redirect gives its name; the list, where to connect to it. */
  stub(address: string): RhumblineClient {
    const listed = this.proxies.find((proxy) => proxy.address === address);
    const target = listed?.connectAddress || address;
    let stub = this.stubs.get(target);
    if (stub === undefined) {
      stub = new RhumblineClient(target, this.channel, {
        "grpc.max_receive_message_length": 8 << 20,
        "grpc.initial_reconnect_backoff_ms": PAUSE_MS_MIN, // a proxy that was restarted is found soon
        "grpc.max_reconnect_backoff_ms": 1000,
        ...this.options,
      });
      this.stubs.set(target, stub);
    }
    return stub;
  }
}

function unary<Request, Response>(
  stub: RhumblineClient, method: (stub: RhumblineClient) => Unary<Request, Response>, request: Request,
  timeoutMs: number,
): Promise<Response> {
  return new Promise((resolve, reject) => {
    const options = { deadline: new Date(Date.now() + timeoutMs) };
    method(stub)(request, new Metadata(), options, (error, response) => {
      if (error) reject(error);
      else resolve(response);
    });
  });
}

/** Chooses the proxy of each attempt. */
export class Route {
  tried: string[] = [];
  private address = "";
  private failures = 0;

  constructor(private readonly client: Client, private readonly role: string) {}

  /** Returns the proxy for this attempt. */
  next(): string {
    this.address ||= this.client.candidates(this.role, this.tried)[0]!;
    return this.address;
  }

  /** Notes that the proxy works. */
  served(): void {
    this.tried = [];
    this.failures = 0;
  }

  /** Forgets the proxy, because an idle call to it ended. */
  forget(): void {
    this.address = "";
  }

  /** Chooses the next proxy and pauses, or throws the error that ends the attempts. */
  async failed(failure: RhumblineError, giveUpAt: number): Promise<void> {
    const step = failure.step;
    if (step === "give up" || Date.now() >= giveUpAt) throw failure;
    if (step !== "here") {
      if (!this.tried.includes(this.address)) this.tried.push(this.address);
      if (this.client.candidates(this.role, []).length <= this.tried.length) {
        this.tried = [this.address]; // all were tried: begin again
      }
      this.address = failure.owner;
      this.client.refreshSoon();
    }
    let pauseMs = failure.retryAfterMs;
    if (++this.failures > FREE_ATTEMPTS || step === "here") {
      const longest = Math.min(PAUSE_MS_MIN * 2 ** Math.min(this.failures, 10), PAUSE_MS_MAX);
      pauseMs = Math.max(pauseMs, (longest * (1 + Math.random())) / 2);
    }
    if (pauseMs > 0) await sleep(pauseMs);
  }
}
