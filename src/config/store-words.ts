/** Names the store of a configuration, in the words of `check` and of the log. It never shows a password. */
import { hostForUrl } from './hosts.ts'
import type { Config, HostPort } from './config.ts'

const addresses = (list: readonly HostPort[]): string =>
  list.map(({ host, port }) => `${hostForUrl(host)}:${port}`).join(', ')

export const storeInWords = ({ redis, file }: Config['store']): string => {
  if (redis === undefined) return `embedded (${file ?? 'in memory only'})`
  if (redis.kind === 'server') return `Redis at ${addresses([redis.address])}`
  if (redis.kind === 'cluster') return `Redis cluster at ${addresses(redis.nodes)}`
  return `Redis master ${redis.name} by sentinels at ${addresses(redis.sentinels)}`
}
