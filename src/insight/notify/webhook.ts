/** One attempt to deliver a notice, signed as in the Standard Webhooks specification (standardwebhooks.com). */
import { createHmac } from 'node:crypto'
import type { Config } from '../../config/config.ts'

export type NotifyConfig = NonNullable<Config['notify']>
export type NotifyEvent = NotifyConfig['events'][number]

export interface Notice {
  /** The same in every attempt, so that a receiver recognises repeats. */
  readonly id: string
  readonly type: NotifyEvent
  readonly timestamp: string
  readonly data: object
}

/** Loads Node's fetch: a process that serves would be held up if the first notice did. */
export const loadFetch = (): void => void globalThis.Response

const ANSWER_WITHIN_MS = 5_000

const sign = (secret: string, content: string): string =>
  createHmac('sha256', Buffer.from(secret.replace(/^whsec_/, ''), 'base64'))
    .update(content)
    .digest('base64')

/** Resolves with the reason for a failed delivery; undefined: delivered. Never rejects. ended: aborts the attempt. */
export async function post(
  { url, secret }: NotifyConfig,
  notice: Notice,
  ended: AbortSignal,
): Promise<string | undefined> {
  const { id, ...content } = notice
  const body = JSON.stringify(content)
  const seconds = Math.floor(Date.now() / 1000)
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'webhook-id': id,
        'webhook-timestamp': String(seconds),
        'webhook-signature': `v1,${sign(secret, `${id}.${seconds}.${body}`)}`,
      },
      body,
      // A redirect leads to a URL that nobody has configured.
      redirect: 'error',
      signal: AbortSignal.any([ended, AbortSignal.timeout(ANSWER_WITHIN_MS)]),
    })
    await response.body?.cancel()
    return response.ok ? undefined : `answers ${response.status}`
  } catch (error) {
    const { message, cause } = error as Error & { cause?: { code?: string } }
    return cause?.code ?? message
  }
}
