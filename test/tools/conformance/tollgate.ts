/** What the suite needs of Tollgate: twenty clients of one plan, and a backend for all methods. */
import { clientsBlock, startRawBackend } from '../../process/gateways.ts'
import { temporaryFile } from '../../support/processes.ts'
import { answer } from '../../support/raw-backend.ts'

const keys = Array.from({ length: 20 }, (_, at) => `tg_conformance_${at}_0123456789`)
export const limits = { perMinute: 20, perDay: 1000 }
export const clients = clientsBlock(
  keys.map((key, at) => ({ id: `client-${at}`, keys: [key], ...limits })),
)
export const backend = () =>
  startRawBackend({ respond: ({ method }) => answer(200, method === 'HEAD' ? '' : '[]') })
export const commandFor = (origin: string, ...more: string[]): string[] => {
  const keyFile = temporaryFile('keys.txt', `${keys.join('\n')}\n`)
  return ['conformance', '--target', origin, '--keys', keyFile, '--limits', '20/1000', ...more]
}
