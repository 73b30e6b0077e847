/** Reads a gateway's own counters from its admin listener. */

export interface Counters {
  readonly storeCalls: number
  /** Requests answered with a 2xx status. */
  readonly admitted: number
  /** Requests answered with a 4xx status. */
  readonly refused: number
}

/** Sums over the admin listeners given. */
export async function scrapeCounters(admins: readonly string[]): Promise<Counters> {
  const pages = await Promise.all(admins.map(metricsPage))
  const total = (pattern: RegExp): number =>
    pages.reduce((sum, page) => sum + sumOf(page, pattern), 0)
  return {
    storeCalls: total(/^tollgate_store_calls_total\{/),
    admitted: total(/^tollgate_requests_total\{.*status="2xx"/),
    refused: total(/^tollgate_requests_total\{.*status="4xx"/),
  }
}

export async function metricsPage(admin: string): Promise<string> {
  const response = await fetch(`${admin}/metrics`)
  if (!response.ok) throw new Error(`${admin}/metrics answered ${response.status}`)
  return response.text()
}

/** The sum of all samples whose line matches. */
export function sumOf(page: string, pattern: RegExp): number {
  return page
    .split('\n')
    .filter((line) => pattern.test(line))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0)
}
