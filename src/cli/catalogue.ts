/** `tollgate catalogue`: the reference backend on its own. */
import { startCatalogue } from '../catalogue/server.ts'
import { explainPort } from './explain-port.ts'
import { hostForUrl } from './host-for-url.ts'
import type { Running } from './running.ts'
import { UsageError } from './usage.ts'

export async function catalogueCommand(options: {
  readonly listen?: string
  readonly db?: string
  print(line: string): void
  complain(line: string): void
}): Promise<Running> {
  const { listen, db, print, complain } = options
  if (listen === undefined) throw new UsageError('--listen HOST:PORT is missing')
  if (db === undefined) throw new UsageError('--db FILE is missing')
  const catalogue = await startCatalogue({
    ...hostAndPort(listen),
    file: db,
    log: complain,
  }).catch((error: unknown) => {
    throw explainPort(error, `the catalogue service cannot listen on ${listen}`, '--listen')
  })
  print(
    `catalogue listening on http://${hostForUrl(catalogue.address.host)}:${catalogue.address.port}/v1`,
  )
  return {
    stop: () => catalogue.close(),
    crash: (error) => complain(`catalogue: ${describe(error)}`),
  }
}

const describe = (error: unknown): string =>
  error instanceof Error ? (error.stack ?? error.message) : String(error)

function hostAndPort(text: string): { host: string; port: number } {
  const found = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]]+)):(\d{1,5})$/.exec(text)
  const port = Number(found?.[3])
  const host = found?.[1] ?? found?.[2]
  if (host === undefined || port > 65_535) {
    throw new UsageError(`--listen takes HOST:PORT such as 127.0.0.1:3000, not "${text}"`)
  }
  return { host, port }
}
