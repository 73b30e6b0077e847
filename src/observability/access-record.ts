/** What the log is given of one request. Types only. */
import type { IncomingMessage } from 'node:http'
import type { QuotaView } from '../rules/quota-headers.ts'
import type { RefusalCode } from '../rules/refusals.ts'

/** One request, as its line tells it. Strings from clients may hold anything: they are cut and escaped here. */
export interface AccessRecord {
  readonly id: string
  readonly clientAddress: string
  readonly caller:
    { readonly clientId: string; readonly keyId: string; readonly plan: string } | undefined
  readonly request: Pick<IncomingMessage, 'method'>
  readonly bodyBytes: number
  readonly path: string | undefined
  readonly route: { readonly name: string } | undefined
  readonly quota: QuotaView | undefined
  readonly backend: string | undefined
  readonly degraded: boolean
  readonly responseBytes: number
  readonly status: number
  readonly refusal: RefusalCode | undefined
  readonly cause: string | undefined
}
