/** `tollgate catalogue`: the reference backend, on its own; the demonstration opens it beside its gateway. */
import { startCatalogue, type CatalogueOptions } from '../tools/catalogue/server.ts'
import { listenAddress } from '../config/addresses.ts'
import { nameOf } from '../config/hosts.ts'
import { createLog, type Log } from '../core/record/log.ts'
import type { Edge } from './edge.ts'
import { explainPort, Service } from './service.ts'
import { readOption } from './terminal/fault.ts'

export const catalogueCommand = (
  edge: Edge,
  { listen, db }: { readonly listen: string; readonly db: string },
): Promise<number> => {
  const address = readOption('listen', listenAddress, listen)
  return new Service(edge, { hangUpEnds: true }).run(async () => {
    const log = createLog({ level: 'info', access: false })
    const { url, close } = await openCatalogue({ ...address, file: db, setting: '--listen' }, log)
    edge.print(`catalogue listening on ${url}`)
    return { stop: close }
  })
}

/** setting: where its address is written. */
export async function openCatalogue(
  { setting, ...options }: Omit<CatalogueOptions, 'log'> & { readonly setting: string },
  log: Log,
) {
  try {
    const report = (message: string): void => log.catalogueFailed({ message })
    const { address, close } = await startCatalogue({ ...options, log: report })
    return { url: `http://${nameOf(address)}/v1`, close }
  } catch (error) {
    throw explainPort(error, 'the catalogue service', options, setting)
  }
}
