/** One attempt to tell a receiver, signed as the Standard Webhooks specification has it (standardwebhooks.com). */
import { createHmac } from 'node:crypto'
import type { Config } from '../../config/config.ts'

export type NotifyConfig = NonNullable<Config['notify']>
export type NotifyEvent = NotifyConfig['events'][number]

export interface Notice {
  /** The same with every attempt, so that a receiver can tell what it had before. */
  readonly id: string
  readonly type: NotifyEvent
  readonly timestamp: string
  readonly data: object
}

const ANSWER_WITHIN_MS = 5_000

const sign = (secret: string, content: string): string =>
  createHmac('sha256', Buffer.from(secret.replace(/^whsec_/, ''), 'base64'))
    .update(content)
    .digest('base64')

/** Resolves with why it was not taken; undefined: it was. Never rejects. ended: it is given up. */
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
      // Where it leads to was not configured.
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
