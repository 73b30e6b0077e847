/**
 * The clients of a configuration go to a worker on a pipe of its own, out of the one table into the other: as messages they would
 * be copied several times, and what that leaves behind stays in the memory of both processes. The message that names the
 * configuration goes on the channel meanwhile, and says how many there are.
 */
import { read } from 'node:fs'
import type { Writable } from 'node:stream'
import { promisify } from 'node:util'
import { fromPlainConfig, type PlainConfig } from '../../config/clients/client-table.ts'
import { columnBytes, newBuffer } from '../../config/clients/columns.ts'
import { borrowTable } from '../../config/clients/release.ts'
import type { Config } from '../../config/config.ts'

/** Resolves when the pipe has taken all clients, which is as fast as the worker reads them, or is closed; never rejects. */
export async function sendClients({ clients }: Config, pipe: Writable): Promise<void> {
  const { bytes, giveBack } = borrowTable({ clients })
  await new Promise((resolve) => pipe.write(bytes, resolve))
  giveBack()
}

/** Returns a function that puts a configuration and its clients together, in the order in which they were sent; it rejects when the supervisor is gone. */
export function createConfigReader(pipeFd: number): (plain: PlainConfig) => Promise<Config> {
  let last: Promise<unknown> = Promise.resolve()
  return (plain) => {
    const config = last.then(async () => fromPlainConfig(plain, await readTable(pipeFd, plain)))
    last = config.catch(() => undefined)
    return config
  }
}

const readSome = promisify(read)

async function readTable(pipeFd: number, { clients }: PlainConfig): Promise<ArrayBuffer> {
  const length = columnBytes(clients.counts)
  const buffer = newBuffer(length)
  const table = new Uint8Array(buffer)
  for (let at = 0; at < length;) {
    const { bytesRead } = await readSome(pipeFd, table, at, length - at, null)
    if (bytesRead === 0) throw new Error('the supervisor is gone')
    at += bytesRead
  }
  return buffer
}
