/** Errors of proxies, and what a client does next: the column of the table of error codes. */

import { status, type ServiceError } from "@grpc/grpc-js";

import { Error as ErrorMessage, StatusDetails, type Position } from "./gen/rhumbline.js";

/**
 * What to do next: go to the owner (or to another proxy if its address is unknown), go to another
 * proxy, pause and send again, take the records as stored, or give up.
 */
export type Step = "owner" | "another" | "here" | "stored" | "give up";

const UNCERTAIN_OR_LOST = new Set([
  "append-outcome-unknown", "unknown-outcome", "indeterminate",
  "ownership-lost", "stream-lost", "subscription-lost", "ledger-fenced", "ledger-closed",
]);
const TRANSIENT = new Set([
  status.CANCELLED, status.UNKNOWN, status.DEADLINE_EXCEEDED, status.ABORTED, status.INTERNAL,
  status.UNAVAILABLE,
]);

/** The reason why a proxy refused a request, or why it could not be reached. */
export class RhumblineError extends Error {
  constructor(
    /** Stable, such as "no-such-stream"; empty if the error is not a proxy's. */
    readonly code: string,
    message: string,
    readonly status: status,
    readonly retryable = false,
    /** With "not-owner": the proxy to go to. */
    readonly owner = "",
    readonly retryAfterMs = 0,
    /** With "truncated": the first position that still exists. */
    readonly firstActive?: Position,
  ) {
    super(`${code || status}: ${message}`);
  }

  get step(): Step {
    if (this.code === "not-owner") return "owner";
    if (this.code === "duplicate-record") return "stored";
    if (["too-many-requests", "over-rate", "quota-exceeded"].includes(this.code)) return "here";
    if (UNCERTAIN_OR_LOST.has(this.code)) return "another";
    if (this.code !== "") return this.retryable ? "another" : "give up";
    if (this.status === status.RESOURCE_EXHAUSTED) return "here";
    return TRANSIENT.has(this.status) ? "another" : "give up";
  }
}

/** An error of the connection, after which another proxy is tried. */
export function unavailable(message: string): RhumblineError {
  return new RhumblineError("", message, status.UNAVAILABLE);
}

/** The error of an answer. */
export function refusal(error: ErrorMessage): RhumblineError {
  return new RhumblineError(
    error.code, error.message, status.UNKNOWN, error.retryable, error.owner, error.retryAfterMs,
    error.firstActive,
  );
}

/** The error in the details of a status. */
export function errorOf(error: unknown): RhumblineError {
  if (error instanceof RhumblineError) return error;
  const failure = error as ServiceError;
  for (const encoded of failure.metadata?.get("grpc-status-details-bin") ?? []) {
    for (const detail of StatusDetails.decode(encoded as Buffer).details) {
      if (detail.typeUrl.endsWith("/rhumbline.v1.Error")) return refusal(ErrorMessage.decode(detail.value));
    }
  }
  return new RhumblineError("", failure.message, failure.code ?? status.UNKNOWN);
}
