/** `tollgate catalogue`: the reference backend on its own. */
import { startCatalogue } from '../tools/catalogue/server.ts'
import { hostForUrl } from '../config/hosts.ts'
import type { ListenAddress } from '../config/config.ts'
import { createLog } from '../core/record/log.ts'
import type { Edge } from './edge.ts'
import { explainPort, Service } from './service.ts'

export const catalogueCommand = (
  edge: Edge,
  { listen, db }: { readonly listen: ListenAddress; readonly db: string },
): Promise<number> =>
  new Service(edge, { hangUpEnds: true }).run(async () => {
    const log = createLog({ level: 'info', access: false })
    const { address, close } = await startCatalogue({
      ...listen,
      file: db,
      log: (message) => log.catalogueFailed({ message }),
    }).catch((error: unknown) => {
      const where = `${hostForUrl(listen.host)}:${listen.port}`
      throw explainPort(error, `the catalogue service cannot listen on ${where}`, '--listen')
    })
    edge.print(`catalogue listening on http://${hostForUrl(address.host)}:${address.port}/v1`)
    return { stop: close }
  })
