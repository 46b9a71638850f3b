import assert from "node:assert/strict";
import { test } from "node:test";

import { Silence, TICK_MS } from "./silence.js";

const START = 1_000_000;

/** Returns after how many ms a proxy that answers nothing is left. */
function leftAfter(answer: (silence: Silence, now: number) => void): number {
  const silence = new Silence(START);
  for (let now = START; ; now += TICK_MS) {
    silence.onTick(now);
    if (silence.isOver(now)) return now - START;
    if (silence.takeQuestion(now)) answer(silence, now);
  }
}

test("a silent proxy is left soon, unless others find it alive", () => {
  assert.equal(leftAfter(() => undefined), 1550);
  assert.equal(leftAfter((silence, now) => silence.onAnswer(now, true)), 10_050);
});

test("time in which the client did not run is no silence", () => {
  const silence = new Silence(START);
  const woken = START + 5_000;
  silence.onTick(woken);
  assert(!silence.isOver(woken) && !silence.takePing(woken));
});
