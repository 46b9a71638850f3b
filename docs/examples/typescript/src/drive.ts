/**
 * Appends or reads numbered records, for tests:
 *
 *     node drive.js append SEEDS NAMESPACE STREAM COUNT PAUSE_MS
 *     node drive.js read   SEEDS NAMESPACE STREAM COUNT
 *
 * SEEDS are addresses of proxies, separated by commas. It prints one line per record: its number and
 * its position.
 */

import { setTimeout as sleep } from "node:timers/promises";

import { Client } from "./client.js";
import { RecordAttributes, type Position } from "./gen/rhumbline.js";

const [command, seeds, namespace, stream, count, pauseMs] = process.argv.slice(2) as [
  string, string, string, string, string, string?,
];
const client = await Client.connect(...seeds.split(","));
if (command === "read") {
  let left = Number(count);
  for await (const record of client.reader(namespace, stream)) {
    const number = record.payload.toString();
    if ((record.key?.toString() ?? number) !== number) throw new Error(`record ${number}: key ${record.key}`);
    show(number, record.position);
    if (--left === 0) break;
  }
} else {
  const producer = client.producer(namespace, stream);
  let shown = Promise.resolve(); // after a takeover, results may come in another order
  for (let i = 0; i < Number(count); i++) {
    await producer.room();
    const number = Buffer.from(String(i));
    const attributes = i % 2 === 0 ? undefined : RecordAttributes.create({ key: number });
    const position = producer.append(number, attributes);
    shown = shown.then(async () => show(String(i), await position));
    await sleep(Number(pauseMs));
  }
  await shown;
  await producer.close();
}
client.close();

function show(number: string, at?: Position): void {
  console.log(`${number} ${at?.lssn ?? 0}:${at?.entryId ?? 0}:${at?.slot ?? 0}`);
}
