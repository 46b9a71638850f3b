import { status } from "@grpc/grpc-js";
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { RhumblineError, refusal, type Step } from "./errors.js";
import { AppendAnswer, Error as ErrorMessage } from "./gen/rhumbline.js";
import { settle, type RecordSet } from "./producer.js";

const page = process.env["GRPC_PAGE"];

test("the client takes the step of the page for every error code", { skip: !page }, () => {
  const rows = [...readFileSync(page!, "utf8").matchAll(/^\| `([a-z-]+)` \| [A-Z_]+ \| (yes|no) \| ([a-z ,]+) \|$/gm)];
  assert(rows.length > 50, `the page has ${rows.length} codes`);
  for (const [, code, retryable, step] of rows) {
    const error = refusal(ErrorMessage.fromPartial({ code, retryable: retryable === "yes" }));
    assert.equal(error.step, (step === "here, later" ? "here" : step) as Step, code);
  }
});

test("an unknown code is decided by retryable, and a broken connection by its status", () => {
  assert.equal(new RhumblineError("new", "", status.UNKNOWN, true).step, "another");
  assert.equal(new RhumblineError("new", "", status.UNKNOWN).step, "give up");
  assert.equal(new RhumblineError("", "", status.UNAVAILABLE).step, "another");
});

test("sets that were refused stay in order", () => {
  const sets = [0, 2, 5].map((first): RecordSet => ({ first, records: [], deadline: 0, sent: true }));
  const stored = AppendAnswer.fromPartial({ ids: [2n], lssns: [1n], entryIds: [7n], slots: [0n] });
  const first = settle(sets, stored);
  assert.deepEqual(first.left.map((set) => set.first), [0, 5]);
  const refused = AppendAnswer.fromPartial({ ids: [0n], error: { code: "not-owner", owner: "b:1" } });
  const second = settle(first.left, refused);
  assert.equal(second.refused?.step, "owner");
  assert.equal(second.refused?.owner, "b:1");
  assert.deepEqual(second.left.map((set) => set.sent), [false, true]);
});
