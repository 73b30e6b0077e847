/** The gateway's own entry in Via, on requests and answers alike (RFC 9110 7.6.3). */

export const VIA = '1.1 tollgate'
