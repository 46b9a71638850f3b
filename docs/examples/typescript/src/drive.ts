/**
 * Appends or reads numbered records, for tests:
 *
 *     node drive.js append SEEDS NAMESPACE STREAM COUNT PAUSE_MS
 *     node drive.js read   SEEDS NAMESPACE STREAM COUNT
 *
 * SEEDS are addresses of proxies, separated by commas. It prints one line per record: its number and
 * its position. The variables CA, SERVER_NAME and TOKEN are for proxies with TLS.
 */

import { credentials } from "@grpc/grpc-js";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

import { Client, token } from "./client.js";
import { RecordAttributes, type Position } from "./gen/rhumbline.js";

const [command, seeds, namespace, stream, count, pauseMs] = process.argv.slice(2) as [
  string, string, string, string, string, string?,
];
const { CA, SERVER_NAME, TOKEN } = process.env;
const client = CA === undefined
  ? await Client.connect(seeds.split(","))
  : await Client.connect(
    seeds.split(","),
    credentials.combineChannelCredentials(credentials.createSsl(readFileSync(CA)), token(TOKEN!)),
    { "grpc.ssl_target_name_override": SERVER_NAME! },
  );
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
